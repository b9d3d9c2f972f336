package message

// The types of docs/spec/message.md section 2.
const (
	TypeText              = "text"
	TypeAck               = "ack"
	TypeNack              = "nack"
	TypeError             = "error"
	TypeContactCarriers   = "contact.carriers"
	TypeAgreementPropose  = "agreement.propose"
	TypeAgreementInvite   = "agreement.invite"
	TypeAgreementCommand  = "agreement.command"
	TypeAgreementResult   = "agreement.result"
	TypeAgreementEvent    = "agreement.event"
	TypeAgreementQuery    = "agreement.query"
	TypeAgreementArtifact = "agreement.artifact"
	TypeApprovalRequest   = "approval.request"
	TypeApprovalResponse  = "approval.response"
	TypeReceipt           = "receipt"
)

// TypeInfo is what every agent knows of a type without reading its body.
type TypeInfo struct {
	MaxBody    int  // bytes of the body as it travels
	Unanswered bool // never answered by any message: ack, nack, error
	new        func() Body
}

// UnknownMaxBody bounds the body of a type that is not in Types: it is stored
// unread, so it gets less room.
const UnknownMaxBody = 64 << 10

// largeBody leaves room for the other members below MaxSize.
const largeBody = MaxSize - 1<<10

// Types are the known types. The three without a Body type are carried and
// bounded here; their bodies belong to the parts that use them.
var Types = map[string]TypeInfo{
	TypeText:              {MaxBody: 96 << 10, new: body[Text]},
	TypeAck:               {MaxBody: 256, Unanswered: true, new: body[Ack]},
	TypeNack:              {MaxBody: 4 << 10, Unanswered: true, new: body[Nack]},
	TypeError:             {MaxBody: 8 << 10, Unanswered: true, new: body[Error]},
	TypeContactCarriers:   {MaxBody: 16 << 10, new: body[ContactCarriers]},
	TypeAgreementPropose:  {MaxBody: largeBody, new: body[AgreementPropose]},
	TypeAgreementInvite:   {MaxBody: largeBody, new: body[AgreementInvite]},
	TypeAgreementCommand:  {MaxBody: 64 << 10, new: body[AgreementCommand]},
	TypeAgreementResult:   {MaxBody: 128 << 10, new: body[AgreementResult]},
	TypeAgreementEvent:    {MaxBody: 128 << 10, new: body[AgreementEvent]},
	TypeAgreementQuery:    {MaxBody: 256, new: body[AgreementQuery]},
	TypeAgreementArtifact: {MaxBody: largeBody, new: body[AgreementArtifact]},
	TypeApprovalRequest:   {MaxBody: 64 << 10},
	TypeApprovalResponse:  {MaxBody: 64 << 10},
	TypeReceipt:           {MaxBody: 64 << 10},
}

// Known reports whether typ is one of Types.
func Known(typ string) bool {
	_, known := Types[typ]
	return known
}

func maxBody(typ string) int {
	if info, known := Types[typ]; known {
		return info.MaxBody
	}
	return UnknownMaxBody
}

// newBody is an empty body of the type, nil where there is none to decode.
func newBody(typ string) Body {
	if info := Types[typ]; info.new != nil {
		return info.new()
	}
	return nil
}

// body makes a pointer to an empty B; *B has the methods of B.
func body[B Body]() Body {
	b := any(new(B))
	return b.(Body)
}

package receipt

// The next actions that several codes share.
const (
	actMend     = "Correct the record at the pointer and issue it again."
	actDistrust = "Do not rely on the receipt, and tell its issuer."
	actReissue  = "Ask the issuer for a receipt in the form of this specification."
	actWait     = "Try again later, at growing intervals."
	actIssuer   = "Tell the issuer's operator: what it publishes has to be mended first."
	actStop     = "Do not fetch this address; ask for the document in another way."
)

// explanations holds every code (WIRE-0.2 error registry): status, category,
// whether a later attempt can succeed, next action.
var explanations = map[Code]Explanation{
	CodeInvalidFormat:          {400, "validation", false, actMend},
	CodeConstraint:             {400, "validation", false, "Make the record smaller or flatter; the detail names the limit."},
	CodeInvalidSignature:       {400, "verification", false, actDistrust},
	CodeJWSEmbeddedKey:         {400, "cryptography", false, actReissue},
	CodeJWSCrit:                {400, "cryptography", false, actReissue},
	CodeJWSB64:                 {400, "cryptography", false, actReissue},
	CodeJWSZip:                 {400, "cryptography", false, actReissue},
	CodeJWSMissingKid:          {400, "cryptography", false, actReissue},
	CodeIJSONDuplicateName:     {400, "validation", false, actMend},
	CodeIJSONNumber:            {400, "validation", false, actMend},
	CodeIJSONString:            {400, "validation", false, actMend},
	CodeUnsupportedWireVersion: {400, "validation", false, "Ask the issuer for a receipt of version 0.2."},
	CodeWireVersionMismatch:    {400, "validation", false, actDistrust},
	CodeKindUnsupported:        {400, "validation", false, "Name one of the two kinds, evidence or challenge."},
	CodeIssuerNotCanonical:     {400, "validation", false, "Write the issuer as a bare https origin in lower case or as a DID."},
	CodePillarsNotSorted:       {400, "validation", false, "Sort the pillars in ascending order and name each once."},
	CodeOccurredAtOnChallenge:  {400, "validation", false, "Leave occurred_at out of a challenge."},
	CodeOccurredAtFuture:       {400, "validation", true, "Check both clocks, then verify again later."},
	CodeInvalidIssuer:          {400, "validation", false, "Ask the issuer you expect; do not rely on this receipt."},
	CodeInvalidSubject:         {400, "validation", false, "Ask for a receipt about the subject you expect."},
	CodeNotYetValid:            {400, "validation", true, "Check both clocks, then verify again later."},
	CodeReplay:                 {409, "verification", false, "Treat the receipt as already counted."},
	CodeInvalidExtensionKey:    {400, "validation", false, "Name the extension by a domain of its author and a segment, in lower case."},
	CodeExtensionSize:          {400, "validation", false, "Carry a digest in the extension and the content elsewhere."},
	CodeExtensionValue:         {400, "validation", false, actMend},
	CodeExtensionGroupRequired: {400, "validation", false, "Add the extension group that the type demands."},
	CodeExtensionGroupMismatch: {400, "validation", false, "Use the extension group that belongs to the type."},
	CodePolicyBindingFailed:    {400, "validation", false, "Compare the policy you hold with the one the receipt was issued under."},
	CodePayloadTooLarge:        {413, "validation", false, "Send a smaller body or a reference to it."},

	CodeKeyNotFound:               {400, "verification", false, "Ask the issuer to publish the key that the receipt names."},
	CodeKidReuse:                  {400, "verification", false, actDistrust},
	CodeRevokedKey:                {400, "verification", false, "Ask the issuer for a receipt under a current key."},
	CodeVerifyIssuerConfigMissing: {502, "verifier", true, actWait},
	CodeVerifyIssuerConfigInvalid: {502, "verifier", false, actIssuer},
	CodeVerifyIssuerMismatch:      {403, "verifier", false, actDistrust},
	CodeVerifyJWKSURIInvalid:      {502, "verifier", false, actIssuer},
	CodeVerifyInsecureScheme:      {403, "verifier", false, actStop},
	CodeVerifyJWKSInvalid:         {502, "verifier", false, actIssuer},
	CodeVerifyJWKSTooLarge:        {400, "verifier", false, actIssuer},
	CodeVerifyJWKSTooManyKeys:     {400, "verifier", false, actIssuer},
	CodeVerifyKeyFetchBlocked:     {403, "verifier", false, actStop},
	CodeVerifyKeyFetchFailed:      {502, "verifier", true, actWait},
	CodeVerifyKeyFetchTimeout:     {504, "verifier", true, actWait},

	CodeVerifyInvalidTransport:      {400, "verifier", false, "Send one receipt header only."},
	CodeVerifyReceiptTooLarge:       {413, "verifier", false, "Send a reference to the receipt instead."},
	CodeVerifyPointerDigestMismatch: {400, "verifier", false, actDistrust},
	CodeVerifyPointerFetchBlocked:   {403, "verifier", false, actStop},
	CodeVerifyPointerFetchFailed:    {502, "verifier", true, actWait},
	CodeVerifyPointerFetchTimeout:   {504, "verifier", true, actWait},
	CodeVerifyPointerFetchTooLarge:  {413, "verifier", false, "Ask for the receipt in another way."},

	CodePolicyFetchFailed:    {502, "policy", true, actWait},
	CodePolicyNotFound:       {404, "policy", false, "Treat the site as one without a policy."},
	CodePolicyInvalid:        {400, "policy", false, "Tell the site's operator: its policy cannot be read."},
	CodePolicyTimeout:        {504, "policy", true, actWait},
	CodePolicyTooLarge:       {413, "policy", false, "Tell the site's operator: its policy is too large."},
	CodePolicySSRFBlocked:    {403, "policy", false, actStop},
	CodePolicyYAMLInjection:  {400, "policy", false, "Tell the site's operator: write the policy without anchors, aliases, tags and merge keys."},
	CodePolicyMultiDocument:  {400, "policy", false, "Tell the site's operator: one document to a file."},
	CodePolicyInsecureScheme: {403, "policy", false, actStop},

	CodeIdentityMissing:              {401, "identity", false, "Send a proof of identity with the request."},
	CodeIdentityInvalidFormat:        {400, "identity", false, "Correct the proof of identity at the pointer."},
	CodeIdentityExpired:              {401, "identity", false, "Renew the proof of identity."},
	CodeIdentityNotYetValid:          {401, "identity", true, "Check both clocks, then try again."},
	CodeIdentitySignatureInvalid:     {401, "identity", false, "Sign the request again with the key that the proof names."},
	CodeIdentityKeyUnknown:           {401, "identity", true, "Publish the key in the directory that the proof names, then try again."},
	CodeIdentityKeyExpired:           {401, "identity", false, "Use a current key."},
	CodeIdentityKeyRevoked:           {401, "identity", false, "Use a key that is not revoked."},
	CodeIdentityBindingMismatch:      {400, "identity", false, "Sign the request that is sent."},
	CodeIdentityBindingStale:         {401, "identity", true, "Sign the request anew and send it at once."},
	CodeIdentityBindingFuture:        {400, "identity", false, "Correct the sender's clock and sign again."},
	CodeIdentityProofUnsupported:     {400, "identity", false, "Use one of the supported kinds of proof."},
	CodeIdentityDirectoryUnavailable: {503, "identity", true, actWait},
}

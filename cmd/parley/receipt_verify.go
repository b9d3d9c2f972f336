package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/parleykit/parley/agent"
	"github.com/parleykit/parley/internal/egress"
	"github.com/parleykit/parley/internal/issuer"
	"github.com/parleykit/parley/internal/receiptlog"
	"github.com/parleykit/parley/protocol/agreement"
	"github.com/parleykit/parley/protocol/discovery"
	"github.com/parleykit/parley/protocol/logproof"
	"github.com/parleykit/parley/protocol/receipt"
)

type receiptVerifyCmd struct {
	File     string `arg:"" optional:"" default:"-" help:"Receipt, header line, carrier, metadata or bundle; - reads standard input."`
	Key      string `help:"The issuer's key: did:key, base64url, or a file with a JWK or JWK Set." placeholder:"KEY" xor:"whose"`
	Discover bool   `help:"Ask the issuer for its key." xor:"whose"`
	Issuer   string `help:"The issuer that is expected." placeholder:"URL"`
	Subject  string `help:"The subject that is expected." placeholder:"TEXT"`
	Policy   string `help:"A peac.txt that the receipt must be bound to." placeholder:"FILE"`
	Interop  bool   `help:"Take receipts of older issuers, with warnings."`
	LogKey   string `help:"Key of the log whose proof is given." placeholder:"VKEY"`
	Proof    string `help:"Proof that the log holds the receipt." placeholder:"FILE"`

	Witness []string `help:"Key of a witness that must have cosigned the log; may be repeated." placeholder:"VKEY" sep:"none"`
}

// Help is printed below the flags.
func (c *receiptVerifyCmd) Help() string {
	return `It takes a receipt as compact JWS, lines of an HTTP header, a carrier, _meta of MCP,
metadata of A2A, or a bundle.json, whose receipts are checked one by one before the
bundle as a whole. Nothing is asked for over the network without --discover, and no
address of this machine but that of a server the home has pinned. An issuer that is
named by a did:key needs neither --key nor --discover. A key that only the bundle
names proves one hand behind all, not whose: compare it.

Exit code 1: a receipt does not hold; 2: wrong usage; 3: its issuer could not be asked.

Examples:
  parley receipt verify receipt.jws --key issuer.json --issuer https://parley.example
  parley receipt verify receipt.jws --discover --policy peac.txt
  parley receipt verify receipt.jws --log-key "$VKEY" --proof proof.txt
  curl -sI https://parley.example/ | parley receipt verify --discover
  parley receipt verify bundle.json --json`
}

// receiptReport is what is known of one receipt: more than a server tells a
// stranger.
type receiptReport struct {
	issuer.Report
	KeySource string     `json:"key_source,omitzero"`
	Log       *logReport `json:"log,omitzero"`
}

// logReport is where a receipt stands in a log.
type logReport struct {
	Origin string `json:"origin"`
	Index  int64  `json:"index"`
	Size   int64  `json:"size"` // entries of the tree that the proof leads to

	Witnesses []string `json:"witnesses"` // of those that were asked for, with the time of each
}

// receiptsReport is what --json prints.
type receiptsReport struct {
	Verdict  string          `json:"verdict"` // the worst of all
	Form     string          `json:"form,omitzero"`
	Receipts []receiptReport `json:"receipts"`
	// Bundle is there when the receipts hold and the bundle they came in does not.
	Bundle *receiptReport `json:"bundle,omitzero"`
}

// judge finds the key of a receipt and holds the receipt against it.
type judge func(ctx context.Context, jws string, opts receipt.VerifyOptions) (v *receipt.Verified, source string, err error)

// Run verifies.
func (c *receiptVerifyCmd) Run(s *session) error {
	in, err := readReceipts(s, c.File)
	if err != nil {
		return s.refusedInput(err)
	}
	opts := receipt.VerifyOptions{Now: time.Now(), Interop: c.Interop, Issuer: c.Issuer, Subject: c.Subject}
	if c.Policy != "" {
		if opts.PolicyDigest, err = policyDigest(s, c.Policy); err != nil {
			return err
		}
	}
	log, proofs, err := c.proofs(s, in)
	if err != nil {
		return err
	}
	judge, err := c.judge(s, in)
	if err != nil {
		return s.refusedInput(err)
	}
	report := &receiptsReport{Form: in.form}
	for i, jws := range in.receipts {
		r, err := judgeReceipt(s.ctx, judge, jws, opts)
		if err != nil {
			return err
		}
		if log != nil && r.Verdict == issuer.VerdictValid {
			r.checkLog(*log, proofs[i])
		}
		report.Receipts = append(report.Receipts, r)
	}
	report.checkBundle(in.bundle)
	return s.tell(report)
}

// policyDigest is the digest of a policy in a file.
func policyDigest(s *session, path string) (string, error) {
	data, err := readInput(s, path, discovery.MaxPolicy)
	if err != nil {
		return "", err
	}
	policy, err := discovery.ParsePolicy(data, "")
	if err != nil {
		return "", &agent.Error{Code: agent.CodeInvalid, Detail: fmt.Sprintf("%s is no policy: %v", path, err)}
	}
	return policy.Digest, nil
}

// proofs are those of every receipt, and whom to believe about the log; nil when
// there is no log to hold them against.
func (c *receiptVerifyCmd) proofs(s *session, in *presented) (*logproof.Policy, []string, error) {
	text, proofs := c.LogKey, in.evidence.LogProofs
	usage := func(detail string) error { return &agent.Error{Code: agent.CodeInvalid, Detail: detail} }
	if text == "" {
		text = in.evidence.LogKey
	}
	if c.Proof != "" {
		if len(in.receipts) != 1 {
			return nil, nil, usage("--proof is of one receipt, and there are more")
		}
		data, err := readInput(s, c.Proof, logproof.MaxProof)
		if err != nil {
			return nil, nil, err
		}
		proofs = []string{string(data)}
	}
	switch {
	case text == "" && len(proofs) == 0 && len(c.Witness) == 0:
		return nil, nil, nil
	case text == "":
		return nil, nil, usage("a proof needs --log-key: whose log it is")
	case len(proofs) == 0:
		return nil, nil, usage("the key of a log or witness needs --proof")
	}
	policy := &logproof.Policy{Quorum: len(c.Witness)}
	var err error
	if policy.Log, err = logproof.ParseKey(text); err != nil {
		return nil, nil, usage("the log's key: " + err.Error())
	}
	for _, text := range c.Witness {
		key, err := logproof.ParseKey(text)
		if err != nil {
			return nil, nil, usage("the key of a witness: " + err.Error())
		}
		policy.Witnesses = append(policy.Witnesses, key)
	}
	return policy, proofs, nil
}

// judge is how the keys are found that the user wants to believe.
func (c *receiptVerifyCmd) judge(s *session, in *presented) (judge, error) {
	if c.Discover {
		resolver, err := s.resolver(in.receipts)
		if err != nil {
			return nil, err
		}
		return discovered(resolver), nil
	}
	ring, err := &keyring{}, error(nil)
	switch {
	case c.Key != "":
		ring, err = pinnedKeys(s, c.Key)
	case in.bundle != nil:
		ring, err = bundleKeys(in.evidence.IssuerKeys)
	}
	if err != nil {
		return nil, err
	}
	return ring.judge, nil
}

func (k *keyring) judge(_ context.Context, jws string, opts receipt.VerifyOptions) (*receipt.Verified, string, error) {
	d, err := receipt.Decode(jws)
	if err != nil {
		return nil, "", err
	}
	key, source, err := k.find(d)
	if errors.Is(err, errNoKey) {
		return nil, "", &agent.Error{
			Code: agent.CodeInvalid, Detail: fmt.Sprintf("the receipt says it is by %s, whose key is not given", line(d.Claims.Issuer)),
			Hint: "name the key by --key, or ask the issuer by --discover",
		}
	}
	if err != nil {
		return nil, "", err
	}
	v, err := receipt.Verify(jws, key, opts)
	return v, source, err
}

// discovered asks issuers.
func discovered(resolver *issuer.Resolver) judge {
	return func(ctx context.Context, jws string, opts receipt.VerifyOptions) (*receipt.Verified, string, error) {
		v, err := resolver.Verify(ctx, jws, opts)
		if err == nil && strings.HasPrefix(v.Claims.Issuer, "did:") {
			return v, sourceDID, nil
		}
		return v, sourceDiscovered, err
	}
}

// resolver asks issuers on the internet, and on this machine those that are a
// server of the home.
func (s *session) resolver(receipts []string) (*issuer.Resolver, error) {
	var opts egress.Options
	for _, jws := range receipts {
		d, err := receipt.Decode(jws)
		if err != nil || !onLoopback(d.Claims.Issuer) {
			continue
		}
		var status agent.Status
		if err := s.call("agent.status", agent.Empty{}, &status); err != nil {
			break // no home: it has pinned nothing
		}
		for _, server := range status.Servers {
			if allow, ok := allowPinned(server.Origin, d.Claims.Issuer); ok {
				opts.Allow = append(opts.Allow, allow)
			}
		}
	}
	return issuer.NewResolver(issuer.ResolverOptions{Dialer: egress.New(opts)})
}

func onLoopback(iss string) bool {
	u, err := url.Parse(iss)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}

// allowPinned is the exception for an issuer that is the pinned server itself.
func allowPinned(server, iss string) (egress.Allow, bool) {
	u, err := url.Parse(iss)
	if err != nil || server != iss {
		return egress.Allow{}, false
	}
	allow, err := egress.ParseAllow(u.Host)
	return allow, err == nil
}

// judgeReceipt reports on one receipt. Errors that say nothing about the
// receipt are handed on.
func judgeReceipt(ctx context.Context, judge judge, jws string, opts receipt.VerifyOptions) (receiptReport, error) {
	v, source, err := judge(ctx, jws, opts)
	if err != nil {
		refusal, ok := errors.AsType[*receipt.Error](err)
		if !ok {
			return receiptReport{}, err
		}
		r := refused(refusal)
		r.Reference = receipt.Reference(jws)
		return r, nil
	}
	return receiptReport{Report: issuer.Report{
		Verdict: issuer.VerdictValid, Reference: v.Reference, KeyID: v.KeyID, Claims: &v.Claims,
		Warnings: v.Warnings, PolicyBinding: v.PolicyBinding,
	}, KeySource: source}, nil
}

// refused reports a refusal. An issuer that could not be asked leaves it open
// whether the receipt holds.
func refused(refusal *receipt.Error) receiptReport {
	explained := refusal.Code.Explain()
	r := issuer.Report{
		Verdict: issuer.VerdictInvalid, Code: refusal.Code, Pointer: refusal.Pointer,
		Detail: refusal.Detail, NextAction: explained.NextAction,
	}
	if explained.Category == "verifier" && explained.Retry {
		r.Verdict = issuer.VerdictUndetermined
	}
	return receiptReport{Report: r}
}

// logFailures are the codes of this command for proofs, beside those of the
// protocol's registry.
var logFailures = []struct {
	err        error
	code       receipt.Code
	detail     string
	nextAction string
}{
	{logproof.ErrMalformed, "log_proof_malformed", "this is no proof of a log", "Ask the log for the proof again, at proof/ and the receipt's reference."},
	{logproof.ErrSignature, "log_signature_invalid", "the log's key did not sign the checkpoint of the proof", "Compare the log's key with the one that its server names, then distrust the proof."},
	{logproof.ErrQuorum, "log_witness_missing", "a witness that you named did not cosign the checkpoint of the proof", "Ask the log for the proof again, in some minutes; then ask why the witness does not cosign."},
	{logproof.ErrPolicy, "log_keys_unusable", "the keys of log and witnesses cannot be used together", "Name the log's own key and each witness once, by their own kinds of key."},
	{logproof.ErrProof, "log_proof_invalid", "the proof does not lead from this receipt to the signed tree", "Ask the log for a proof of this very receipt."},
}

// checkLog holds a receipt against the proof of a log.
func (r *receiptReport) checkLog(policy logproof.Policy, proof string) {
	leaf, err := receiptlog.Leaf(r.Reference)
	var entry *logproof.Entry
	if err == nil {
		entry, err = logproof.Verify(leaf, proof, policy)
	}
	if err == nil {
		r.Log = &logReport{Origin: entry.Origin, Index: entry.Index, Size: entry.Size, Witnesses: []string{}}
		for _, c := range entry.Cosignatures {
			r.Log.Witnesses = append(r.Log.Witnesses, fmt.Sprintf("%s at %s", c.Key.Name(), c.Time.UTC().Format(time.RFC3339)))
		}
		return
	}
	failed := issuer.Report{Verdict: issuer.VerdictInvalid, Code: "log_proof_malformed", Detail: err.Error(), Reference: r.Reference}
	for _, f := range logFailures {
		if errors.Is(err, f.err) {
			failed.Code, failed.Detail, failed.NextAction = f.code, f.detail, f.nextAction
		}
	}
	*r = receiptReport{Report: failed}
}

// checkBundle looks at the rest of a bundle whose receipts hold: that they are
// about its events.
func (r *receiptsReport) checkBundle(bundle []byte) {
	if bundle == nil || r.worst() != issuer.VerdictValid {
		return
	}
	if _, err := agreement.Verify(bundle); err != nil {
		r.Bundle = &receiptReport{Report: issuer.Report{
			Verdict: issuer.VerdictInvalid, Code: "bundle_invalid", Detail: err.Error(),
			NextAction: "Ask another participant for the bundle; do not rely on this one.",
		}}
	}
}

// worst is the verdict on everything.
func (r *receiptsReport) worst() string {
	verdict := issuer.VerdictValid
	for _, one := range r.failed() {
		if verdict = one.Verdict; verdict == issuer.VerdictInvalid {
			break
		}
	}
	return verdict
}

// failed are the reports that are not valid.
func (r *receiptsReport) failed() (list []receiptReport) {
	for _, one := range r.Receipts {
		if one.Verdict != issuer.VerdictValid {
			list = append(list, one)
		}
	}
	if r.Bundle != nil {
		list = append(list, *r.Bundle)
	}
	return list
}

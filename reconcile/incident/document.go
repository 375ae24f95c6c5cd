package incident

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
)

// Format is the first field of every document.
const Format = "tierlock incident report 1"

// Stage is how far a document has come. It only moves forward.
type Stage string

// The stages.
const (
	Draft    Stage = "draft"    // records may be assigned and settled
	Reviewed Stage = "reviewed" // frozen
	Signed   Stage = "signed"   // and signed: who can check it cannot make one
)

// Document is a report with its life. From the first review on, each step carries the
// SHA-256 of the report and of all steps up to itself, so a change of either is found; who
// changes both can make the sums anew, which is what the signature is for.
type Document struct {
	Format    string     `json:"format"`
	Stage     Stage      `json:"stage"`
	Report    *Report    `json:"report"`
	Reviews   []Step     `json:"reviews"`
	Signature *Signature `json:"signature,omitempty"`
}

// Step is somebody's word on a report.
type Step struct {
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	SHA256 string    `json:"sha256"` // of the canonical report, the steps before, and this one without its sum
}

// Signature is the last step.
type Signature struct {
	Step
	Key   string `json:"key"`   // first 16 hex digits of the SHA-256 of the public key
	Value string `json:"value"` // Ed25519 over the sum, in base64
}

// New is a draft of r.
func New(r *Report) *Document {
	return &Document{Format: Format, Stage: Draft, Report: r, Reviews: []Step{}}
}

// Encode writes d as it is kept. The same document is always written the same way, and
// Parse takes a frozen one in no other.
func (d *Document) Encode() ([]byte, error) {
	text, err := json.MarshalIndent(d, "", "  ")
	return append(text, '\n'), err
}

// Parse reads a document and checks every sum in it. A frozen document must be the very
// bytes that Encode wrote: a second field of one name, or one that nobody knows, would show
// other readers something else than was reviewed. Every error is a
// [*tierlock.InvalidError].
func Parse(text []byte) (*Document, error) {
	d := &Document{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(d); err != nil {
		return nil, tierlock.Invalid("report", "", "is no report of tierlock: "+err.Error())
	}
	if dec.More() {
		return nil, tierlock.Invalid("report", "", "want one JSON object and nothing behind it")
	}
	if d.Format != Format || d.Report == nil {
		return nil, tierlock.Invalid("format", d.Format, "want "+Format)
	}
	if err := d.coherent(); err != nil {
		return nil, err
	}
	if d.Stage == Draft {
		return d, nil
	}
	same, err := d.Encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(same, text) {
		return nil, tierlock.Invalid("report", string(d.Stage), changed)
	}
	return d, nil
}

const changed = "was changed after it was frozen"

// coherent tells whether the stage fits the steps, and each sum what it is over.
func (d *Document) coherent() error {
	var want Stage
	switch {
	case d.Signature != nil && len(d.Reviews) > 0:
		want = Signed
	case d.Signature != nil:
		return tierlock.Invalid("reviews", "none", "want one at least before the signature: the document "+changed)
	case len(d.Reviews) > 0:
		want = Reviewed
	default:
		want = Draft
	}
	if d.Stage != want {
		return tierlock.Invalid("stage", string(d.Stage), "want "+string(want)+" with these steps: the document "+changed)
	}
	for i, step := range d.Reviews {
		sum, err := d.digest(i, step.By, step.At, "")
		if err != nil {
			return err
		}
		if sum != step.SHA256 {
			return tierlock.Invalid("reviews.sha256", step.SHA256, changed)
		}
	}
	if s := d.Signature; s != nil {
		sum, err := d.digest(len(d.Reviews), s.By, s.At, s.Key)
		if err != nil {
			return err
		}
		if sum != s.SHA256 {
			return tierlock.Invalid("signature.sha256", s.SHA256, changed)
		}
	}
	return nil
}

// digest is the sum of a step: over the canonical report, which is its JSON without space,
// the steps before, and who takes this one when.
func (d *Document) digest(before int, by string, at time.Time, key string) (string, error) {
	text, err := json.Marshal(struct {
		Format string    `json:"format"`
		Report *Report   `json:"report"`
		Before []Step    `json:"before"`
		By     string    `json:"by"`
		At     time.Time `json:"at"`
		Key    string    `json:"key"`
	}{d.Format, d.Report, append([]Step{}, d.Reviews[:before]...), by, at, key})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Review freezes the report, or adds a reviewer to one that is frozen and not signed.
// Where four eyes are asked for, the author cannot be one.
func (d *Document) Review(by string, at time.Time) error {
	if err := checkName("by", by); err != nil {
		return err
	}
	switch {
	case d.Stage == Signed:
		return tierlock.Invalid("stage", string(d.Stage), "a signed report is not reviewed any more")
	case d.Report.FourEyes && sameName(by, d.Report.Author):
		return tierlock.Invalid("by", by, "made the report: four eyes are asked for, so somebody else must review it")
	}
	for _, step := range d.Reviews {
		if sameName(step.By, by) {
			return tierlock.Invalid("by", by, "has reviewed it already")
		}
	}
	at = at.UTC().Round(time.Millisecond)
	sum, err := d.digest(len(d.Reviews), by, at, "")
	if err != nil {
		return err
	}
	d.Stage, d.Reviews = Reviewed, append(d.Reviews, Step{By: by, At: at, SHA256: sum})
	return nil
}

// signedFor is put before what is signed, so that a signature means nothing elsewhere.
const signedFor = Format + " signature\n"

// Sign ends the life of a reviewed report.
func (d *Document) Sign(by string, at time.Time, key ed25519.PrivateKey) error {
	if err := checkName("by", by); err != nil {
		return err
	}
	if len(key) != ed25519.PrivateKeySize {
		return errors.New("incident: Sign without a key")
	}
	switch d.Stage {
	case Draft:
		return tierlock.Invalid("stage", string(d.Stage), "is to be reviewed before it is signed")
	case Signed:
		return tierlock.Invalid("stage", string(d.Stage), "has a signature already")
	}
	at = at.UTC().Round(time.Millisecond)
	name := keyName(key.Public().(ed25519.PublicKey))
	sum, err := d.digest(len(d.Reviews), by, at, name)
	if err != nil {
		return err
	}
	value := ed25519.Sign(key, []byte(signedFor+sum))
	d.Stage = Signed
	d.Signature = &Signature{Step: Step{By: by, At: at, SHA256: sum}, Key: name, Value: base64.StdEncoding.EncodeToString(value)}
	return nil
}

// Verify tells whether one of keys has signed d, which Parse has read.
func (d *Document) Verify(keys ...ed25519.PublicKey) error {
	s := d.Signature
	if d.Stage != Signed || s == nil {
		return tierlock.Invalid("stage", string(d.Stage), "is not signed")
	}
	value, err := base64.StdEncoding.DecodeString(s.Value)
	if err != nil || len(value) != ed25519.SignatureSize {
		return tierlock.Invalid("signature.value", s.Value, "want 64 bytes in base64")
	}
	for _, key := range keys {
		if len(key) == ed25519.PublicKeySize && keyName(key) == s.Key && ed25519.Verify(key, []byte(signedFor+s.SHA256), value) {
			return nil
		}
	}
	return tierlock.Invalid("signature.value", s.Value, "is of none of the keys, or the report "+changed)
}

func keyName(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

func sameName(a, b string) bool { return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b)) }

// Assign notes in a draft who answers for a record, what was done about it, and whether
// that settles it. At least one of them must be told.
func (d *Document) Assign(kind, id string, note Hand) error {
	if err := checkName("by", note.By); err != nil {
		return err
	}
	if d.Stage != Draft {
		return tierlock.Invalid("stage", string(d.Stage), "a frozen report is not changed")
	}
	if note.Owner == "" && note.Action == "" && !note.Settled {
		return tierlock.Invalid("record", kind+":"+id, "want an owner, an action, or that it is settled")
	}
	if note.Owner != "" {
		if err := checkName("owner", note.Owner); err != nil {
			return err
		}
	}
	if note.Settled && note.Action == "" {
		return tierlock.Invalid("action", "", "is required: say what settled it")
	}
	const most = 1000
	if len(note.Action) > most || strings.ToValidUTF8(note.Action, "") != note.Action {
		return tierlock.Invalid("action", "", "want UTF-8 of 1000 bytes or less")
	}
	for i := range d.Report.Records {
		r := &d.Report.Records[i]
		if r.Type != kind || r.ID != id {
			continue
		}
		note.At = note.At.UTC().Round(time.Millisecond)
		r.Hand = append(r.Hand, note)
		if note.Owner != "" {
			r.Owner = note.Owner
		}
		if note.Action != "" {
			r.Action = note.Action
		}
		r.Settled = r.Settled || note.Settled
		d.Report.sum()
		return nil
	}
	return tierlock.Invalid("record", kind+":"+id, "is none of this report")
}

package switchcfg

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tierlock/tierlock"
)

func newKey(t *testing.T) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

// signedDoc is doc with a signature, as YAML.
func signedDoc(t *testing.T, key ed25519.PrivateKey, version string) string {
	t.Helper()
	d, err := Parse([]byte(doc(version, time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	if d, err = d.Sign(key); err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestASignatureIsOfWhatTheDocumentSays(t *testing.T) {
	public, private := newKey(t)
	stranger, _ := newKey(t)
	d, err := Parse([]byte(`{version: 7, canary: {percent: 10}, policies: {coupon: {wait: 500ms, local: {permits: 1}, ramp_from: 0.1}},
		chains: {coupon: {mode: bypass, until: 2026-11-29T19:00:00+01:00, reason: "Redis under DDoS", by: oncall}}}`))
	if err != nil {
		t.Fatal(err)
	}
	d, err = d.Sign(private)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Verify(stranger, public); err != nil {
		t.Errorf("one of two keys: %v", err)
	}
	for name, encode := range map[string]func(any) ([]byte, error){"yaml": yaml.Marshal, "json": json.Marshal} {
		text, err := encode(d)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(text)
		if err != nil || again.Verify(public) != nil {
			t.Errorf("%s: %v, %v\n%s", name, err, again.Verify(public), text)
		}
	}
	share := uint8(50)
	for what, change := range map[string]func(*Document){
		"version":   func(d *Document) { d.Version++ },
		"canary":    func(d *Document) { d.Canary = nil },
		"policies":  func(d *Document) { d.Policies = map[string]Values{"coupon": {"wait": "501ms"}} },
		"no chain":  func(d *Document) { d.Chains = map[string]Directive{} },
		"mode":      func(d *Document) { alter(d, func(o *Directive) { o.Mode = tierlock.ModeLocal }) },
		"until":     func(d *Document) { alter(d, func(o *Directive) { o.Until = o.Until.Add(time.Second) }) },
		"percent":   func(d *Document) { alter(d, func(o *Directive) { o.Percent = &share }) },
		"reason":    func(d *Document) { alter(d, func(o *Directive) { o.Reason += "." }) },
		"by":        func(d *Document) { alter(d, func(o *Directive) { o.By = "me" }) },
		"glass":     func(d *Document) { alter(d, func(o *Directive) { o.BreakGlass = true }) },
		"dry run":   func(d *Document) { alter(d, func(o *Directive) { o.DryRun = true }) },
		"signature": func(d *Document) { d.Signature = "AAAA" + d.Signature[4:] },
		"cut off":   func(d *Document) { d.Signature = d.Signature[:8] },
		"none":      func(d *Document) { d.Signature = "" },
	} {
		other := d
		change(&other)
		if err := other.Verify(public); !errors.Is(err, tierlock.ErrInvalid) || !strings.Contains(err.Error(), "signature") {
			t.Errorf("another %s: %v", what, err)
		}
	}
	if err := d.Verify(stranger); err == nil {
		t.Error("a stranger's signature is good")
	}
}

// alter changes a copy of the only order.
func alter(d *Document, change func(*Directive)) {
	o := d.Chains["coupon"]
	change(&o)
	d.Chains = map[string]Directive{"coupon": o}
}

// Every field of a document and of an order is signed, those that come later too: only the
// signature itself is not.
func TestEveryFieldIsSigned(t *testing.T) {
	whole := Document{Version: 1, Canary: &Canary{Percent: 1}, Chains: map[string]Directive{"c": {
		Mode: tierlock.ModeBypass, Until: time.Unix(1, 0), Reason: "r", By: "b", BreakGlass: true, DryRun: true,
	}}, Policies: map[string]Values{"c": {"wait": "1s"}}, Signature: "s"}
	text, err := whole.canonical()
	if err != nil {
		t.Fatal(err)
	}
	var told struct {
		Chains map[string]map[string]any `json:"chains"`
	}
	var top map[string]any
	if err := errors.Join(json.Unmarshal(text, &told), json.Unmarshal(text, &top)); err != nil {
		t.Fatal(err)
	}
	if want := reflect.TypeFor[Document]().NumField() - 1; len(top) != want {
		t.Errorf("%d fields of the document are signed, want %d: %s", len(top), want, text)
	}
	if want := reflect.TypeFor[Directive]().NumField(); len(told.Chains["c"]) != want {
		t.Errorf("%d fields of an order are signed, want %d: %s", len(told.Chains["c"]), want, text)
	}
}

func TestFollowTakesSignedDocumentsOnly(t *testing.T) {
	public, private := newKey(t)
	_, stranger := newKey(t)
	synctest.Test(t, func(t *testing.T) {
		f := &fake{text: signedDoc(t, private, "1")}
		lastGood := filepath.Join(t.TempDir(), "last")
		b := startWith(t, f, f, FollowConfig{LastGood: lastGood, Keys: []ed25519.PublicKey{public}})
		if r := b.after(time.Millisecond); r.Version != 1 || r.Fault != nil {
			t.Fatalf("signed: %+v", r)
		}
		for name, text := range map[string]string{
			"unsigned":      doc("2", time.Hour),
			"by a stranger": signedDoc(t, stranger, "2"),
			"changed since": strings.Replace(signedDoc(t, private, "2"), "bypass", "reject", 1),
		} {
			f.set(func() { f.text = text })
			r := b.after(6 * time.Second)
			if r.Version != 1 || r.Fault == nil || r.Fault.Why != WhyUnsigned || r.Fault.Version != 2 {
				t.Errorf("%s: %+v, %v", name, r, r.Fault)
			}
		}
		if !strings.Contains(b.log.String(), "why=unsigned") {
			t.Errorf("no alarm in the log:\n%s", b.log)
		}
		f.set(func() { f.text = signedDoc(t, private, "3") })
		if r := b.after(6 * time.Second); r.Version != 3 || r.Fault != nil {
			t.Errorf("signed again: %+v", r)
		}
		b.stop()

		f.set(func() { f.err = errors.New("gone") })
		again := startWith(t, f, f, FollowConfig{LastGood: lastGood, Keys: []ed25519.PublicKey{public}})
		if r := again.after(time.Millisecond); r.Version != 3 {
			t.Errorf("after a restart: %+v", r)
		}
		again.stop()
		other, _ := newKey(t)
		replaced := startWith(t, f, f, FollowConfig{LastGood: lastGood, Keys: []ed25519.PublicKey{other}})
		if r := replaced.after(time.Millisecond); r.Version != 0 || !strings.Contains(replaced.log.String(), "refused") {
			t.Errorf("a last good document of a key that is not trusted any more: %+v\n%s", r, replaced.log)
		}
		replaced.stop()
	})
}

func TestKeysAreReadFromPEM(t *testing.T) {
	public, private := newKey(t)
	pkix, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	one := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pkix})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	keys, err := PublicKeys(append([]byte("the key of the shop\n"), append(one, one...)...))
	if err != nil || len(keys) != 2 || !keys[1].Equal(public) {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	if key, err := PrivateKey(secret); err != nil || !key.Equal(private) {
		t.Errorf("private key: %v", err)
	}
	for name, text := range map[string][]byte{"empty": nil, "rubbish": []byte("rubbish"), "private": secret} {
		if keys, err := PublicKeys(text); err == nil {
			t.Errorf("%s: %d public keys", name, len(keys))
		}
	}
	for name, text := range map[string][]byte{"empty": nil, "public": one} {
		if _, err := PrivateKey(text); err == nil {
			t.Errorf("%s: a private key", name)
		}
	}
	if _, err := (Document{}).Sign(nil); err == nil {
		t.Error("signed without a key")
	}
}

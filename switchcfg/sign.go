package switchcfg

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"

	"github.com/tierlock/tierlock"
)

// signed is put before what is signed, so that a signature means nothing elsewhere.
const signed = "tierlock switch document 1\n"

// Sign returns d with its signature. What d says is signed and not how it is written, so a
// config centre may change its layout. Keys are Ed25519: who can check a signature cannot
// make one.
func (d Document) Sign(key ed25519.PrivateKey) (Document, error) {
	if len(key) != ed25519.PrivateKeySize {
		return Document{}, errors.New("switchcfg: Sign without a key")
	}
	text, err := d.canonical()
	if err != nil {
		return Document{}, err
	}
	d.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(key, append([]byte(signed), text...)))
	return d, nil
}

// Verify says whether one of keys has signed d; the error is a [*tierlock.InvalidError].
func (d Document) Verify(keys ...ed25519.PublicKey) error {
	if d.Signature == "" {
		return tierlock.Invalid("signature", "", "is missing: this place takes signed documents only")
	}
	sig, err := base64.StdEncoding.DecodeString(d.Signature)
	if err != nil || len(sig) != ed25519.SignatureSize {
		return tierlock.Invalid("signature", d.Signature, "want 64 bytes in base64")
	}
	text, err := d.canonical()
	if err != nil {
		return err
	}
	for _, key := range keys {
		if len(key) == ed25519.PublicKeySize && ed25519.Verify(key, append([]byte(signed), text...), sig) {
			return nil
		}
	}
	return tierlock.Invalid("signature", d.Signature, "is of none of the keys, or the document was changed after it was signed")
}

// canonical is the same text for documents that say the same; the signature is no part.
func (d Document) canonical() ([]byte, error) {
	same := Document{Version: d.Version, Canary: d.Canary, Chains: make(map[string]Directive, len(d.Chains)), Policies: d.Policies}
	for name, order := range d.Chains {
		share := order.Share()
		order.Percent, order.Until = &share, order.Until.UTC()
		same.Chains[name] = order
	}
	return json.Marshal(same) // its maps are sorted
}

// PublicKeys reads the Ed25519 public keys of a PEM text ("PUBLIC KEY", as openssl pkey
// -pubout writes them), at least one. Several let a key be replaced without a gap.
func PublicKeys(text []byte) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		key, ok := parsed.(ed25519.PublicKey)
		if err != nil || !ok {
			return nil, errors.New("want Ed25519 public keys in PEM, found " + block.Type)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("want Ed25519 public keys in PEM, found none")
	}
	return keys, nil
}

// PrivateKey reads the one Ed25519 private key of a PEM text ("PRIVATE KEY", as openssl
// genpkey -algorithm ed25519 writes it).
func PrivateKey(text []byte) (ed25519.PrivateKey, error) {
	if block, _ := pem.Decode(text); block != nil {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if key, ok := parsed.(ed25519.PrivateKey); ok && err == nil {
			return key, nil
		}
	}
	return nil, errors.New("want an Ed25519 private key in PEM") // what it holds instead may be a secret
}

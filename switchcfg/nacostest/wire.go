package nacostest

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// payload is the one message of the protocol: a type, headers and a body in JSON.
type payload struct {
	kind    string
	headers map[string]string
	body    []byte
}

// The numbers of the fields of the messages Payload, Metadata, Any and of a map's entry.
const (
	payloadMetadata = 2
	payloadBody     = 3
	metadataType    = 3
	metadataHeaders = 7
	anyValue        = 2
	mapKey          = 1
	mapValue        = 2
)

// codec reads and writes payloads for grpc. It is written out by hand, so that the fake
// shares no code with the client that it tests.
type codec struct{}

// Name implements encoding.Codec.
func (codec) Name() string { return "proto" }

// Marshal implements encoding.Codec.
func (codec) Marshal(v any) ([]byte, error) {
	p, ok := v.(*payload)
	if !ok {
		return nil, fmt.Errorf("nacostest: cannot write a %T", v)
	}
	meta := text(nil, metadataType, p.kind)
	for key, value := range p.headers {
		meta = field(meta, metadataHeaders, text(text(nil, mapKey, key), mapValue, value))
	}
	return field(field(nil, payloadMetadata, meta), payloadBody, field(nil, anyValue, p.body)), nil
}

// Unmarshal implements encoding.Codec.
func (codec) Unmarshal(data []byte, v any) error {
	p, ok := v.(*payload)
	if !ok {
		return fmt.Errorf("nacostest: cannot read a %T", v)
	}
	p.headers = map[string]string{}
	return fields(data, map[protowire.Number]func([]byte) error{
		payloadMetadata: p.metadata,
		payloadBody: func(b []byte) error {
			return fields(b, map[protowire.Number]func([]byte) error{anyValue: func(b []byte) error { p.body = b; return nil }})
		},
	})
}

func (p *payload) metadata(b []byte) error {
	return fields(b, map[protowire.Number]func([]byte) error{
		metadataType: func(b []byte) error { p.kind = string(b); return nil },
		metadataHeaders: func(b []byte) error {
			var key, value string
			err := fields(b, map[protowire.Number]func([]byte) error{
				mapKey:   func(b []byte) error { key = string(b); return nil },
				mapValue: func(b []byte) error { value = string(b); return nil },
			})
			p.headers[key] = value
			return err
		},
	})
}

// fields calls the function of every field that has one; the others are passed over.
func fields(b []byte, known map[protowire.Number]func([]byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		read := known[number]
		if kind != protowire.BytesType || read == nil {
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return protowire.ParseError(n)
			}
			b = b[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := read(value); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func field(b []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
}

func text(b []byte, number protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), value)
}

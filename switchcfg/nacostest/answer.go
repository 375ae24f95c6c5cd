package nacostest

import (
	"context"
	"encoding/json"
	"strconv"
)

// The types of questions.
const (
	serverCheck   = "ServerCheckRequest"
	healthCheck   = "HealthCheckRequest"
	configQuery   = "ConfigQueryRequest"
	configListen  = "ConfigBatchListenRequest"
	configPublish = "ConfigPublishRequest"
	configRemove  = "ConfigRemoveRequest"
)

// The codes of the protocol.
const (
	codeOK           = 200
	codeFailed       = 500
	codeNotFound     = 300 // error code of a query for nothing
	codeUnregistered = 301 // error code of a connection that has set up no stream
	codeRefused      = 403
)

// question is what is read of the bodies of all types.
type question struct {
	RequestID string          `json:"requestId"`
	Tenant    string          `json:"tenant"`
	Group     string          `json:"group"`
	DataID    string          `json:"dataId"`
	Content   string          `json:"content"`
	CasMD5    string          `json:"casMd5"`
	Listen    bool            `json:"listen"`
	Contexts  []listenContext `json:"configListenContexts"`
}

func (q *question) id() id { return id{q.Tenant, q.Group, q.DataID} }

// listenContext is one configuration that is listened to, with the sum that the asker has.
type listenContext struct {
	Tenant string `json:"tenant"`
	Group  string `json:"group"`
	DataID string `json:"dataId"`
	MD5    string `json:"md5"`
}

// result is in every answer.
type result struct {
	ResultCode int    `json:"resultCode"`
	ErrorCode  int    `json:"errorCode"`
	Success    bool   `json:"success"`
	Message    string `json:"message,omitempty"`
	RequestID  string `json:"requestId,omitempty"`
}

// The answers' own fields.
type (
	checked struct {
		result
		ConnectionID string `json:"connectionId"`
	}
	queried struct {
		result
		Content      string `json:"content"`
		ContentType  string `json:"contentType,omitempty"`
		MD5          string `json:"md5,omitempty"`
		LastModified int64  `json:"lastModified"`
	}
	listened struct {
		result
		Changed []changed `json:"changedConfigs"`
	}
	changed struct {
		Tenant string `json:"tenant"`
		Group  string `json:"group"`
		DataID string `json:"dataId"`
	}
)

func ok() result { return result{ResultCode: codeOK, Success: true} }

func failed(code int, message string) result {
	return result{ResultCode: codeFailed, ErrorCode: code, Message: message}
}

// answer answers one question. The server check opens a connection and needs none.
func (s *Server) answer(ctx context.Context, in *payload) (*payload, error) {
	if !s.faults.silent(ctx) {
		return nil, ctx.Err()
	}
	var q question
	if err := json.Unmarshal(in.body, &q); err != nil {
		return reply("ErrorResponse", failed(codeFailed, "the body is no JSON"), q)
	}
	if in.kind == serverCheck {
		return reply("ServerCheckResponse", checked{ok(), strconv.FormatUint(connOf(ctx), 10)}, q)
	}
	asker := s.clients.of(ctx)
	if asker == nil {
		return reply("ErrorResponse", failed(codeUnregistered, "Connection is unregistered."), q)
	}
	refused, old := s.faults.asked(in.kind)
	stranger := !s.login.knows(in.headers["accessToken"])
	refused = refused || stranger
	switch in.kind {
	case healthCheck:
		return reply("HealthCheckResponse", ok(), q)
	case configQuery:
		if refused {
			return reply("ConfigQueryResponse", queried{result: failed(codeRefused, "authorization failed!")}, q)
		}
		return reply("ConfigQueryResponse", s.query(q.id(), old), q)
	case configListen:
		if stranger {
			return reply("ConfigChangeBatchListenResponse", listened{result: failed(codeRefused, "authorization failed!")}, q)
		}
		return reply("ConfigChangeBatchListenResponse", s.listenTo(asker, &q), q)
	case configPublish:
		return reply("ConfigPublishResponse", s.publish(&q, refused), q)
	case configRemove:
		if refused {
			return reply("ConfigRemoveResponse", failed(codeRefused, "authorization failed!"), q)
		}
		s.change(q.id(), "")
		return reply("ConfigRemoveResponse", ok(), q)
	}
	return reply("ErrorResponse", failed(302, "no handler for "+in.kind), q)
}

func (s *Server) query(at id, old bool) queried {
	e := s.store.get(at)
	if old {
		e.text = e.before
	}
	if e.text == "" {
		return queried{result: failed(codeNotFound, "config data not exist")}
	}
	return queried{result: ok(), Content: e.text, ContentType: "text", MD5: sumOf(e.text), LastModified: e.modified.UnixMilli()}
}

// listenTo notes what is listened to and names what the asker has not the present text of.
func (s *Server) listenTo(asker *client, q *question) listened {
	out := listened{result: ok(), Changed: []changed{}}
	for _, c := range q.Contexts {
		at := id{c.Tenant, c.Group, c.DataID}
		asker.listen(at, q.Listen)
		if q.Listen && sumOf(s.store.get(at).text) != c.MD5 {
			out.Changed = append(out.Changed, changed{c.Tenant, c.Group, c.DataID})
		}
	}
	return out
}

func (s *Server) publish(q *question, refused bool) result {
	switch {
	case refused:
		return failed(codeRefused, "authorization failed!")
	case q.Content == "":
		return failed(codeFailed, "content is empty")
	case !s.store.swap(q.id(), q.Content, q.CasMD5):
		return failed(codeFailed, "Cas publish fail, server md5 may have changed.")
	}
	if !s.faults.losesPushes() {
		s.clients.notify(q.id())
	}
	return ok()
}

// reply makes the payload of an answer to q.
func reply(kind string, body any, q question) (*payload, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return &payload{kind: kind, body: append(text[:len(text)-1], `,"requestId":`+strconv.Quote(q.RequestID)+"}"...)}, nil
}

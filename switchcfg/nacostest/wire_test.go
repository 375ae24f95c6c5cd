package nacostest

import (
	"context"
	"encoding/json"
	"net"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// wire is a client without a mind of its own: it asks what a test says, and keeps what it is
// told.
type wire struct {
	t      *testing.T
	conn   *grpc.ClientConn
	stream grpc.ClientStream
	pushes chan question
}

// dial opens a connection to the HTTP address and sets it up, unless bare.
func dial(t *testing.T, addr string, bare bool) *wire {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.Dial(net.JoinHostPort(host, strconv.Itoa(number+grpcOffset)),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{})))
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, conn: conn, pushes: make(chan question, 64)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); _ = conn.Close(); <-done })
	if w.ask(serverCheck, nil).ErrorCode != 0 {
		t.Fatal("the server is not ready")
	}
	if bare {
		close(done)
		return w
	}
	w.stream, err = conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/BiRequestStream/requestBiStream")
	if err != nil {
		t.Fatal(err)
	}
	w.send("ConnectionSetupRequest", map[string]any{"clientVersion": "tierlock-test", "tenant": "", "labels": map[string]string{"source": "sdk", "module": "config"}})
	go func() { defer close(done); w.receive() }()
	for end := time.Now().Add(5 * time.Second); w.ask(healthCheck, nil).ErrorCode == codeUnregistered; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the connection was never registered")
		}
	}
	return w
}

func (w *wire) send(kind string, body any) {
	w.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.stream.SendMsg(&payload{kind: kind, body: text}); err != nil {
		w.t.Errorf("send %s: %v", kind, err)
	}
}

// receive keeps changes and acknowledges whatever comes.
func (w *wire) receive() {
	for {
		in := new(payload)
		if w.stream.RecvMsg(in) != nil {
			return
		}
		var q question
		if json.Unmarshal(in.body, &q) != nil || in.kind != "ConfigChangeNotifyRequest" {
			continue
		}
		// First the receipt: with the push its test may end, and the stream with it.
		w.send("ConfigChangeNotifyResponse", map[string]any{"resultCode": codeOK, "success": true, "requestId": q.RequestID})
		w.pushes <- q
	}
}

// heard is what is looked at of any answer.
type heard struct {
	kind string
	result
	Content      string    `json:"content"`
	MD5          string    `json:"md5"`
	LastModified int64     `json:"lastModified"`
	ConnectionID string    `json:"connectionId"`
	Changed      []changed `json:"changedConfigs"`
}

// good is how clients judge an answer: by its code. Not every server fills in success.
func (h *heard) good() bool { return h.ResultCode == codeOK && h.ErrorCode == 0 }

// ask puts one question and fails the test when nobody answers.
func (w *wire) ask(kind string, body map[string]any) heard {
	w.t.Helper()
	h, err := w.try(kind, body, 5*time.Second)
	if err != nil {
		w.t.Fatalf("%s: %v", kind, err)
	}
	return h
}

func (w *wire) try(kind string, body map[string]any, within time.Duration) (h heard, err error) {
	if body == nil {
		body = map[string]any{}
	}
	body["requestId"] = "q1"
	text, err := json.Marshal(body)
	if err != nil {
		return h, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	out := new(payload)
	headers := map[string]string{"notify": "false"}
	if token, ok := body["token"].(string); ok {
		headers["accessToken"] = token
	}
	if err = w.conn.Invoke(ctx, "/Request/request", &payload{kind: kind, headers: headers, body: text}, out); err != nil {
		return h, err
	}
	h.kind = out.kind
	return h, json.Unmarshal(out.body, &h)
}

// at names a configuration in a question.
func at(dataID string, more ...any) map[string]any {
	body := map[string]any{"tenant": "", "group": "TIERLOCK", "dataId": dataID, "module": "config"}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	return body
}

// listen asks to be told of dataID, whose text has that sum as far as the asker knows.
func (w *wire) listen(dataID, sum string, on bool) []changed {
	w.t.Helper()
	h := w.ask(configListen, map[string]any{"module": "config", "listen": on, "configListenContexts": []map[string]any{
		{"tenant": "", "group": "TIERLOCK", "dataId": dataID, "md5": sum},
	}})
	if !h.good() || h.kind != "ConfigChangeBatchListenResponse" {
		w.t.Errorf("listen: %+v", h)
	}
	return h.Changed
}

// told waits for a push of dataID.
func (w *wire) told(dataID string) {
	w.t.Helper()
	select {
	case q := <-w.pushes:
		if q.DataID != dataID || q.Group != "TIERLOCK" {
			w.t.Errorf("told of %s in %s, want %s", q.DataID, q.Group, dataID)
		}
	case <-time.After(10 * time.Second):
		w.t.Fatalf("never told of %s", dataID)
	}
}

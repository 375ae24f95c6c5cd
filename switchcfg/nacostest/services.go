package nacostest

import (
	"context"
	"encoding/json"
	"strconv"

	"google.golang.org/grpc"
)

// services are the two that clients use: questions one by one, and the stream on which a
// connection is set up and told of changes.
func (s *Server) services() []grpc.ServiceDesc {
	return []grpc.ServiceDesc{
		{
			ServiceName: "Request", HandlerType: (*any)(nil),
			Methods: []grpc.MethodDesc{{MethodName: "request", Handler: handleRequest}},
		},
		{
			ServiceName: "BiRequestStream", HandlerType: (*any)(nil),
			Streams: []grpc.StreamDesc{{StreamName: "requestBiStream", Handler: handleStream, ServerStreams: true, ClientStreams: true}},
		},
	}
}

func handleRequest(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	in := new(payload)
	if err := decode(in); err != nil {
		return nil, err
	}
	s := srv.(*Server)
	s.inside.enter()
	defer s.inside.leave()
	return s.answer(ctx, in)
}

func handleStream(srv any, stream grpc.ServerStream) error { return srv.(*Server).stream(stream) }

// stream serves one connection's stream until either side ends.
func (s *Server) stream(stream grpc.ServerStream) error {
	s.inside.enter()
	defer s.inside.leave()
	ctx := stream.Context()
	if err := stream.RecvMsg(new(payload)); err != nil { // the set-up; nothing in it matters here
		return err
	}
	if !s.faults.silent(ctx) {
		return ctx.Err()
	}
	number := connOf(ctx)
	one := s.clients.register(number)
	defer s.clients.leave(number)
	gone := make(chan error, 1)
	s.inside.enter()
	go func() { // ends with the stream, when this returns
		defer s.inside.leave()
		gone <- drain(stream)
	}()
	for sent := 1; ; sent++ {
		select {
		case at := <-one.out:
			if !s.faults.silent(ctx) {
				return ctx.Err()
			}
			if err := stream.SendMsg(push(at, sent)); err != nil {
				return err
			}
		case err := <-gone:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drain reads acknowledgements, of which nothing depends.
func drain(stream grpc.ServerStream) error {
	for {
		if err := stream.RecvMsg(new(payload)); err != nil {
			return err
		}
	}
}

// push is the message that something has changed; it never says what to.
func push(at id, number int) *payload {
	body, _ := json.Marshal(map[string]string{ // strings marshal
		"requestId": strconv.Itoa(number), "tenant": at.tenant, "group": at.group, "dataId": at.dataID, "module": "config",
	})
	return &payload{kind: "ConfigChangeNotifyRequest", body: body}
}

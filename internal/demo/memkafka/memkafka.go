// Package memkafka STANDS IN for a Kafka cluster inside the process and READS BACK what a
// topic holds, whole. Reading back goes through another client library than the one that
// writes events, so that a fault in the writing one cannot hide itself.
package memkafka

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Server is a one-broker Kafka stand-in.
type Server struct{ cluster *kfake.Cluster }

// Start listens on a free loopback port. Topics are created by whoever needs them.
func Start() (*Server, error) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return nil, fmt.Errorf("start the in-process kafka: %w", err)
	}
	return &Server{c}, nil
}

// Addrs lists the brokers, host and port.
func (s *Server) Addrs() []string { return s.cluster.ListenAddrs() }

// Close ends the broker; everything in it is gone.
func (s *Server) Close() { s.cluster.Close() }

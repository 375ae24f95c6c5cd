// Package kafkasink SENDS audit events to Kafka. It is the sink of an audit.Log and one of
// the two folders that import kafka-go.
//
// It does not use kafka-go's Writer, but its Produce call, with one request per partition
// and call: the Writer queues without bound, goes on writing what its caller has given up,
// waits for company, may store a later batch after an earlier one failed, and cannot be
// closed while it waits. Here nothing outlives Send, nothing is queued, and a partition's
// messages are one batch or, after a refusal, are sent again in order. Retrying is the
// log's: Send tries once.
package kafkasink

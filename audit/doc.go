// Package audit RECORDS what went past the lock: every grant and its end, on this disk
// first and in the stream of events afterwards. [Log] is the whole of it for an embedder;
// [Event] is one record and its JSON the contract with every reader; [Chain] tells a
// reader what is missing.
//
// It is not a metrics pipeline, decides no tier and judges no conflict. It knows neither
// Kafka (see kafkasink) nor the gateway, and spool, below it, knows no event.
package audit

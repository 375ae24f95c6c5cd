// Package nacostest is a server of the Nacos configuration protocol (gRPC, as clients of
// version 2 speak it) for tests of those who follow a configuration in Nacos: in this
// process, on loopback, up in a millisecond. It does on demand what a real one does on a bad
// day: it loses pushes, refuses with 403, falls silent, answers with what was there before,
// loses a configuration, dies and comes back.
//
// It keeps configurations of every namespace, compares and sets, answers batch listens,
// pushes changes and checks logins. It knows no naming service, no history, no beta and no
// encryption. Its own tests hold it against a real server, question by question.
package nacostest

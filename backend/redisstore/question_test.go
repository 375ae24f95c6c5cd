package redisstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What go-redis was given stays what it was, whatever becomes of the question: it may look at
// it long after the answer.
func TestContextOfAQuestionOutlivesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		first := questionOf(context.WithValue(t.Context(), key{}, 1), time.Now(), time.Now().Add(time.Second))
		given, deadline := first.context(), first.deadline
		if again := first.context(); again != given {
			t.Error("two contexts of one question")
		}
		given.Done()
		ends := given.Done() // from the second look on with a timer
		first.end()
		for range 100 { // one of them is first's memory again
			other := questionOf(t.Context(), time.Now(), time.Now().Add(time.Hour))
			defer other.end()
			if got, _ := other.context().Deadline(); !got.Equal(other.deadline) {
				t.Fatalf("the context of another question, which ends at %v", got)
			}
		}
		if got, ok := given.Deadline(); !ok || !got.Equal(deadline) {
			t.Errorf("ends at %v, want %v", got, deadline)
		}
		if given.Value(key{}) != 1 {
			t.Error("values of another caller")
		}
		<-ends // ended with its question
		if !errors.Is(given.Err(), context.Canceled) {
			t.Errorf("%v, want canceled", given.Err())
		}
	})
}

package ntfybridge

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestWakeUpsCallAtMostOnceInTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var calls []time.Duration
		began := time.Now()
		w := &waker{now: time.Now, call: func() {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, time.Since(began))
		}}
		defer w.close()
		for range 25 { // 25 s of a flood
			for range 100 {
				w.wake()
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		want := []time.Duration{0, 10 * time.Second, 20 * time.Second, 30 * time.Second} // the last for what came after 20 s
		if len(calls) != len(want) {
			t.Fatalf("calls after %v, want %v", calls, want)
		}
		for i := range want {
			if calls[i] != want[i] {
				t.Errorf("call %d after %s, want %s", i, calls[i], want[i])
			}
		}
	})
}

func TestWakeUpsAfterCloseCallNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &waker{now: time.Now, call: func() { t.Error("called") }}
		w.wake()
		w.close()
		w.wake()
		time.Sleep(time.Minute)
		synctest.Wait()
	})
}

//go:build !nodemo

package demo

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/examples/coupon"
	"github.com/tierlock/tierlock/examples/order"
)

const (
	plenty      = 1e9  // pieces of each
	scarcePiece = 40   // of the one sku that sells out
	repeatEvery = 10   // every so many orders is delivered twice at once
	doubleEvery = 25   // every so many claims is a double click that reaches both instances
	giftEvery   = 4    // every so many claims is for a gift
	perCoupon   = 3000 // requests until the next coupon is given out
)

// load is the customers: as many at once as the timetable says, none of whom knows of
// locks. It counts what it asked for, apart from what the gateways say they answered.
type load struct {
	scene     *scene
	shop      *shop
	instances []*instance
	requests  atomic.Int64
	unserved  atomic.Int64 // errors that are no answer of a shop: none is expected
	firstErr  atomic.Pointer[error]
	ids       atomic.Int64

	staleTried, staleRefused atomic.Int64 // of the sleepers

	rushOrders, rushClaims, calm atomic.Bool

	stop context.CancelFunc
	work sync.WaitGroup
}

// start begins the synthetic load; halt ends it. Orders are left out when a trace brings
// its own.
func (l *load) start(ctx context.Context, orders bool) error {
	for i := range l.scene.timetable.SKUs {
		if err := l.shop.offer(ctx, "hot-"+strconv.Itoa(i), plenty); err != nil {
			return err
		}
	}
	if err := l.shop.offer(ctx, "scarce", scarcePiece); err != nil {
		return err
	}
	ctx, l.stop = context.WithCancel(ctx)
	t := &l.scene.timetable
	for i := range l.instances {
		for n := range t.Claimers {
			l.work.Go(func() { l.claims(ctx, i, rand.New(rand.NewPCG(uint64(n), uint64(i)))) })
		}
		for n := range t.Buyers {
			if orders {
				l.work.Go(func() { l.orders(ctx, i, rand.New(rand.NewPCG(uint64(n), uint64(i)+100))) })
			}
		}
	}
	return nil
}

// halt lets every request under way end by itself.
func (l *load) halt() {
	l.stop()
	l.work.Wait()
}

// arrive lets customers come one after the other: a cold start of all at once would be a
// slow store in itself.
func (l *load) arrive(ctx context.Context, rnd *rand.Rand) {
	pause(ctx, time.Duration(rnd.Int64N(int64(l.scene.timetable.Normal/2))))
}

// rush makes customers of either chain think less.
func (l *load) rush(orders, claims bool) {
	l.rushOrders.Store(orders)
	l.rushClaims.Store(claims)
}

// think is what a customer does between two requests.
func (l *load) think(ctx context.Context, rush *atomic.Bool) {
	switch t := &l.scene.timetable; {
	case l.calm.Load():
		pause(ctx, 10*t.Think)
	case rush.Load():
		pause(ctx, t.Rush)
	default:
		pause(ctx, t.Think)
	}
}

func (l *load) orders(ctx context.Context, i int, rnd *rand.Rand) {
	l.arrive(ctx, rnd)
	for ctx.Err() == nil {
		o := order.Order{ID: l.id("o"), SKU: "hot-" + strconv.Itoa(rnd.IntN(l.scene.timetable.SKUs))}
		if rnd.IntN(50) == 0 {
			o.SKU = "scarce"
		}
		if rnd.IntN(repeatEvery) == 0 {
			l.twice(func(in *instance) { l.place(ctx, in, o) })
		} else {
			l.place(ctx, l.instances[i], o)
		}
		l.think(ctx, &l.rushOrders)
	}
}

func (l *load) claims(ctx context.Context, i int, rnd *rand.Rand) {
	l.arrive(ctx, rnd)
	for ctx.Err() == nil {
		c := coupon.Claim{User: "u" + strconv.Itoa(rnd.IntN(l.scene.timetable.Users)), Coupon: "c" + strconv.Itoa(int(l.ids.Load()/perCoupon))}
		kind := "coupon"
		if rnd.IntN(giftEvery) == 0 {
			kind, c.Coupon = gift, "g"+c.Coupon
		}
		if rnd.IntN(doubleEvery) == 0 {
			l.twice(func(in *instance) { l.claim(ctx, in, kind, c) })
		} else {
			l.claim(ctx, l.instances[i], kind, c)
		}
		l.think(ctx, &l.rushClaims)
	}
}

// twice does the same on both instances at once.
func (l *load) twice(do func(*instance)) {
	var both sync.WaitGroup
	for _, in := range l.instances {
		both.Go(func() { do(in) })
	}
	both.Wait()
}

func (l *load) id(prefix string) string { return prefix + strconv.FormatInt(l.ids.Add(1), 10) }

// place is one request to the order service. It is not cancelled when the load ends: a
// customer who gave up has no verdict.
func (l *load) place(ctx context.Context, in *instance, o order.Order) {
	ctx, c := l.scene.oracle.begin(context.WithoutCancel(ctx))
	l.requests.Add(1)
	err := in.orders.Place(ctx, o)
	c.end()
	l.judge(err, order.ErrBusy, order.ErrSoldOut, order.ErrPlaced)
}

// claim is one request to the coupon service.
func (l *load) claim(ctx context.Context, in *instance, kind string, cl coupon.Claim) {
	ctx, c := l.scene.oracle.begin(context.WithoutCancel(ctx))
	cl.ID = l.id("r")
	service := in.coupons
	if kind == gift {
		service = in.gifts
	}
	l.requests.Add(1)
	err := service.Claim(ctx, cl)
	c.end()
	l.judge(err, coupon.ErrBusy, coupon.ErrClaimed)
}

// judge counts errors that neither the shop nor the lock means a customer to see.
func (l *load) judge(err error, expected ...error) {
	if err == nil || errors.Is(err, tierlock.ErrTimeout) || errors.Is(err, tierlock.ErrSystem) {
		return
	}
	for _, e := range expected {
		if errors.Is(err, e) {
			return
		}
	}
	l.unserved.Add(1)
	l.firstErr.CompareAndSwap(nil, &err)
}

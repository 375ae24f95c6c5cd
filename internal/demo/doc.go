// Package demo TELLS the whole story in one command: an order service and a coupon service
// under load, a store that turns slow, fills up and dies, an operator's switch, the way
// back, and a reconciliation that finds and repairs what went wrong. The real client code
// runs; only the servers may be stand-ins inside the process.
//
// It is also the product's proof. An oracle of its own keeps, apart from the audit path, a
// record of who was really inside a lock, and the report compares what the product says
// with it. The story is a function of its [Seams]: the tests make one of them lie at a
// time and see the report turn from ok to not ok.
//
// Nothing else in the module imports it but the binary. The build tag nodemo leaves it out.
package demo

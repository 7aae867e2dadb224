//! The order of reports does not matter: the stories of a warehouse are reported in random orders and pieces, and more than once.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::DateTime;
use proptest::prelude::*;
use proptest::sample::subsequence;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::expedition::order::Place;
use crate::expedition::report::{Parcel, Times};
use crate::expedition::shipper::Shipper;
use longshore_kernel::ids::{EshopId, ExpeditionId, OrganisationId, ProductId, WarehouseId, WmsId};

/// A number that was never given here.
const LOST: i32 = 7;
/// Of an order in doubt, the number by which it is asked back.
const FLOOR: i32 = 1_000;

/// Quantities of the items; the last two are of one product.
const QUANTITIES: [i32; 4] = [1, 3, 2, 5];

fn moment(minute: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + 60 * minute, 0).unwrap()
}

/// An order in doubt.
fn doubted(status: Status, handover: Option<HandoverState>) -> Order {
    let mut order = order(status, handover);
    order.state.doubt = Doubt::Whether;
    order
}

fn order(status: Status, handover: Option<HandoverState>) -> Order {
    let item = |place: usize, product: u128| Item {
        id: ExpeditionItemId::from_u128(100 + place as u128),
        position: i32::try_from(place).unwrap(),
        product: ProductId::from_u128(product),
        product_sku: format!("P{product}"),
        quantity: QUANTITIES[place],
        stock: Some(StockId::from_u128(product)),
        is_physical: true,
        unsold: None,
    };
    Order {
        id: ExpeditionId::from_u128(1),
        organisation: OrganisationId::from_u128(1),
        eshop: EshopId::from_u128(1),
        place: Place { warehouse: WarehouseId::from_u128(1), wms: WmsId::from_u128(1) },
        order_number: "1".to_owned(),
        external_id: None,
        state: State { status, handover, ..State::default() },
        waits_before: false,
        items: vec![item(0, 1), item(1, 2), item(2, 3), item(3, 3)],
        checks_address: true,
        faults: Vec::new(),
        shipper: Shipper::default(),
        edits: Vec::new(),
        former_shipper: None,
        consignment: None,
        version: 1,
    }
}

fn fixed(number: Option<i32>) -> Fixed {
    Fixed { is_called: true, number, ..Fixed::default() }
}

fn row(id: usize, members: &Value) -> Row {
    let mut row = json!({"id": format!("N{id}"), "expedition": Uuid::from_u128(1)});
    row.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    super::super::row::read_row(row, moment(10_000)).unwrap()
}

/// What a warehouse does with an order, each step reported with its moment; parcels come when they like. `items` are named by each
/// packed status, or by none; lots and serial numbers by any of them.
fn story() -> impl Strategy<Value = Vec<Row>> {
    let statuses = subsequence(
        vec![
            "take_out",
            "completion",
            "waiting_for_the_carrier",
            "carrier_picked_up",
            "ready_to_takeover",
            "delivered",
        ],
        1..=6,
    );
    let items = proptest::option::of((0..=1_i32, 0..=3_i32, 0..=7_i32));
    let parcels = proptest::collection::vec((0..3_u8, any::<bool>(), any::<bool>()), 0..5);
    // the first so many serial numbers, in any order
    let serials = (Just(vec!["S1", "S2", "S3"]).prop_shuffle(), 0..=3_usize);
    let details = proptest::collection::vec((any::<bool>(), serials), 6);
    (statuses, items, parcels, any::<bool>(), details).prop_map(
        |(statuses, items, parcels, by_sku, details)| {
            let mut news: Vec<Value> = Vec::new();
            for (minute, status) in statuses.iter().enumerate() {
                let mut row =
                    json!({"status": status, "at": moment(i64::try_from(minute).unwrap()), "number": 1});
                let is_packed = status.parse::<Status>().unwrap().is_packed();
                if let Some((first, second, rest)) = items.filter(|_| is_packed) {
                    let third = if by_sku {
                        json!({"productSku": "P3", "expedited": rest})
                    } else {
                        json!({"product": Uuid::from_u128(3), "expedited": rest})
                    };
                    let mut detailed = json!({"id": Uuid::from_u128(101), "expedited": second});
                    let (has_lot, (shuffled, count)) = &details[minute];
                    if *has_lot {
                        detailed["lot"] = json!("L");
                    }
                    let known = &["S1", "S2", "S3"][..*count];
                    let serials: Vec<_> = shuffled.iter().filter(|serial| known.contains(serial)).collect();
                    detailed["serialNumbers"] = json!(serials);
                    row["items"] = json!([{"id": Uuid::from_u128(100), "expedited": first}, detailed, third]);
                }
                news.push(row);
            }
            for (number, has_tracking, has_url) in parcels {
                let mut parcel = json!({"extPackageNumber": number.to_string()});
                if has_tracking {
                    parcel["extPackageTrackingNumber"] = json!(format!("T{number}"));
                }
                if has_url {
                    parcel["trackingUrl"] = json!(format!("https://t/{number}"));
                }
                news.push(json!({"parcels": [parcel], "wmsInternalId": "W"}));
            }
            news.into_iter().enumerate().map(|(id, members)| row(id, &members)).collect()
        },
    )
}

/// The same, reported of a hand-over that is lost.
fn lost_story() -> impl Strategy<Value = Vec<Row>> {
    story().prop_map(|rows| {
        rows.into_iter().map(|row| Row { id: format!("L{}", row.id), number: Some(LOST), ..row }).collect()
    })
}

/// What is the same after each way to report a story.
#[derive(Debug, PartialEq)]
struct End {
    status: Status,
    handover: Option<HandoverState>,
    times: Times,
    parcels: Vec<Parcel>,
    has_tracking: (bool, bool),
    left: HashMap<ExpeditionItemId, Left>,
    internal_id: Option<String>,
    /// By number, the pieces that left.
    strays: BTreeMap<i32, Option<Vec<i32>>>,
    contents_unknown: bool,
}

/// An item that left, as its record shows it then, its lots and serial numbers in one order.
fn shown(gone: &Gone) -> (ExpeditionItemId, Left) {
    let sorted = |texts: &[String]| -> Vec<String> {
        texts.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect()
    };
    (
        gone.item,
        Left { pieces: gone.left.pieces, lots: sorted(&gone.left.lots), serials: sorted(&gone.left.serials) },
    )
}

/// Takes reports in chunks of these sizes, as one transaction after the other.
fn fold_all(mut order: Order, fixed: &Fixed, rows: &[Row], sizes: &[usize]) -> End {
    let (mut known, mut left, mut sizes) = (Known::default(), HashMap::new(), sizes.iter().cycle());
    let mut strays: BTreeMap<i32, Option<Vec<i32>>> = BTreeMap::new();
    let mut taken: Vec<&str> = Vec::new();
    let mut rest = rows;
    while !rest.is_empty() {
        let (chunk, later) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
        rest = later;
        let those = |has_left: bool| {
            strays.iter().filter(|(_, gone)| gone.is_some() == has_left).map(|(number, _)| *number).collect()
        };
        let fixed = Fixed { left: left.clone(), strays: those(true), noted: those(false), ..fixed.clone() };
        let mut fold = Fold::new(&order, (known.clone(), fixed));
        for row in chunk {
            if taken.contains(&row.id.as_str()) {
                continue;
            }
            if let Err(refused) = fold.take(row, moment(5_000)) {
                assert!(refused.is_taken && row.number == Some(LOST), "{refused:?}");
            }
            taken.push(&row.id);
        }
        if let Some(gone) = &fold.left {
            assert!(left.is_empty(), "pieces leave once");
            left = gone.iter().map(shown).collect();
        }
        left.extend(fold.detailed.iter().map(shown));
        for stray in &fold.strays {
            let pieces = |gone: &Vec<Gone>| gone.iter().map(|gone| gone.left.pieces).collect();
            let before = strays.insert(stray.number, stray.gone.as_ref().map(pieces));
            assert!(before.flatten().is_none(), "pieces leave once for each number");
        }
        assert!(!fold.gives_back());
        let (state, after) = (fold.state.clone(), fold.known.clone());
        known = after;
        order.state = state;
    }
    known.parcels.sort_by(|a, b| a.number.cmp(&b.number));
    End {
        status: order.state.status,
        handover: order.state.handover,
        times: known.times,
        has_tracking: (known.tracking.number.is_some(), known.tracking.url.is_some()),
        parcels: known.parcels,
        left,
        internal_id: known.internal_id,
        strays,
        contents_unknown: order.state.doubt == Doubt::Contents,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn an_order_ends_alike_in_whatever_order_and_however_often_it_is_told(
        (rows, shuffled) in (story(), proptest::option::of(lost_story())).prop_flat_map(|(mut rows, lost)| {
            rows.extend(lost.into_iter().flatten());
            let doubled: Vec<Row> = rows.iter().chain(&rows).cloned().collect();
            (Just(rows), Just(doubled).prop_shuffle())
        }),
        sizes in proptest::collection::vec(1..5_usize, 1..5),
        handover in prop_oneof![Just(HandoverState::Sending), Just(HandoverState::Accepted)],
    ) {
        let order = order(Status::AwaitingProcessing, Some(handover));
        let fixed = Fixed { is_set_back: true, ..fixed(Some(1)) };
        let straight = fold_all(order.clone(), &fixed, &rows, &[1]);
        let mixed = fold_all(order, &fixed, &shuffled, &sizes);
        let latest = |is_lost: bool| {
            let of_it = rows.iter().filter(|row| (row.number == Some(LOST)) == is_lost);
            of_it.filter_map(|row| row.status).max()
        };
        prop_assert_eq!(straight.strays.len(), usize::from(latest(true).is_some()));
        let has_left = straight.strays.values().flatten().next().is_some();
        prop_assert_eq!(has_left, latest(true).is_some_and(Status::is_packed));
        let latest = latest(false).unwrap();
        prop_assert_eq!(straight.status, latest);
        prop_assert_eq!(straight.left.is_empty(), !latest.is_packed());
        // the first parcel that says it gives the order its tracking number, so which one that is depends on the order
        let numbers_differ = |end: &End| end.parcels.iter().filter(|parcel| parcel.package_tracking_number.is_some()).count();
        prop_assert_eq!(numbers_differ(&straight), numbers_differ(&mixed));
        prop_assert_eq!(straight, mixed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn an_order_in_doubt_ends_alike_by_whatever_numbers_it_is_told(
        (rows, shuffled) in (story(), proptest::collection::vec(0..4_usize, 11)).prop_flat_map(|(mut rows, numbers)| {
            for (row, number) in rows.iter_mut().zip(numbers.iter().cycle()) {
                row.number = [None, Some(1), Some(2), Some(FLOOR)][*number];
            }
            let doubled: Vec<Row> = rows.iter().chain(&rows).cloned().collect();
            (Just(rows), Just(doubled).prop_shuffle())
        }),
        sizes in proptest::collection::vec(1..5_usize, 1..5),
        handover in prop_oneof![
            Just(None), Just(Some(HandoverState::Pending)), Just(Some(HandoverState::Sending)), Just(Some(HandoverState::Refused)),
        ],
    ) {
        let order = doubted(Status::AwaitingProcessing, handover);
        let fixed = Fixed { is_set_back: true, known_number: Some(1), ..fixed(Some(FLOOR)) };
        let straight = fold_all(order.clone(), &fixed, &rows, &[1]);
        let mixed = fold_all(order, &fixed, &shuffled, &sizes);
        prop_assert_eq!(straight.handover, Some(HandoverState::Accepted));
        prop_assert_eq!(straight.status, rows.iter().filter_map(|row| row.status).max().unwrap());
        prop_assert_eq!(straight.contents_unknown, rows.iter().any(|row| row.number != Some(1)));
        prop_assert!(straight.strays.is_empty());
        prop_assert_eq!(straight, mixed);
    }
}

#[test]
fn a_number_that_was_never_given_is_a_contradiction_after_a_set_back_and_refused_without() {
    use HandoverState::{Accepted, Pending, Withdrawn};
    let parcel = json!([{"extPackageNumber": "1"}]);
    let picked = json!({"status": "take_out", "number": LOST});
    let packed = json!({"status": "delivered", "number": LOST, "parcels": parcel, "items": [
        {"productSku": "P3", "expedited": 70}, {"productSku": "other", "expedited": 1},
    ]});
    for (status, handover, latest) in [
        (Status::AwaitingProcessing, Some(Accepted), Some(2)),
        (Status::AwaitingProcessing, Some(Pending), Some(1)),
        (Status::OnHold, None, None),
        (Status::OnHold, Some(Withdrawn), Some(1)),
        (Status::WaitingForGoods, None, None),
        (Status::Delivered, Some(Accepted), Some(1)),
        (Status::Canceled, Some(Withdrawn), Some(1)),
        (Status::Canceled, None, None),
    ] {
        let order = order(status, handover);
        let mut fold = Fold::new(&order, (Known::default(), fixed(latest)));
        assert_eq!(one(&mut fold, &picked), Err("not_handed_over"), "{status}");
        assert_eq!(one(&mut fold, &packed), Err("not_handed_over"), "{status}");
        assert!(fold.kept.is_empty() && fold.strays.is_empty());

        let fixed = Fixed { is_set_back: true, ..fixed(latest) };
        let mut fold = Fold::new(&order, (Known::default(), fixed));
        for report in [&picked, &packed, &picked, &packed] {
            let refused = fold.take(&row(0, report), moment(1)).unwrap_err();
            assert_eq!((refused.violation.code, refused.is_taken), ("contradiction", true), "{status}");
        }
        assert_eq!((fold.state.status, fold.state.handover), (status, handover));
        // as far as it was ordered, once
        let left: Vec<Option<Vec<i32>>> = fold
            .strays
            .iter()
            .map(|stray| {
                assert!(stray.number == LOST && stray.is_lost);
                stray.gone.as_ref().map(|gone| gone.iter().map(|gone| gone.left.pieces).collect())
            })
            .collect();
        assert_eq!(left, [None, Some(vec![0, 0, 2, 5])], "{status}");
        assert_eq!((fold.known.parcels.len(), fold.kept.len(), fold.left.is_none()), (1, 4, true));
    }
}

#[test]
fn news_of_an_order_in_doubt_are_its_acceptance_and_count_where_it_can_be_in_the_warehouse() {
    use HandoverState::{Accepted, Pending, Sending, Withdrawing, Withdrawn};
    let (has, lost) = (Ok(()), Err("contradiction"));
    for (status, handover, number, expected, after, contents_unknown) in [
        (Status::AwaitingProcessing, Some(Pending), Some(1), has, Some(Accepted), false),
        (Status::AwaitingProcessing, Some(Sending), Some(2), has, Some(Accepted), true),
        (Status::AwaitingProcessing, Some(Accepted), None, has, Some(Accepted), true),
        (Status::AwaitingProcessing, Some(Withdrawing), Some(FLOOR), has, Some(Withdrawing), true),
        (Status::AwaitingProcessing, None, Some(1), has, Some(Accepted), false),
        (Status::OnHold, Some(Withdrawn), Some(2), lost, Some(Accepted), true),
        (Status::OnHold, None, Some(3), lost, Some(Accepted), true),
        (Status::Canceled, Some(Withdrawn), Some(2), lost, Some(Withdrawn), false),
        (Status::AwaitingProcessing, Some(Sending), Some(FLOOR + 1), lost, Some(Sending), false),
    ] {
        let order = doubted(status, handover);
        let fixed = Fixed { is_set_back: true, known_number: Some(1), ..fixed(Some(FLOOR)) };
        let mut fold = Fold::new(&order, (Known::default(), fixed));
        let place = format!("{status} {handover:?} {number:?}");
        assert_eq!(one(&mut fold, &json!({"status": "take_out", "number": number})), expected, "{place}");
        assert_eq!(
            (fold.state.handover, fold.state.doubt == Doubt::Contents),
            (after, contents_unknown),
            "{place}"
        );
        let is_picked = fold.state.status == Status::TakeOut;
        assert_eq!(
            (is_picked, fold.strays.len()),
            (expected == has, usize::from(expected == lost)),
            "{place}"
        );
    }
    // its answer to what was asked
    let on_hold = doubted(Status::OnHold, Some(Withdrawing));
    let fixed = fixed(Some(FLOOR));
    let mut fold = Fold::new(&on_hold, (Known::default(), fixed.clone()));
    one(&mut fold, &json!({"cancel": "accepted", "number": 2})).unwrap();
    assert_eq!((fold.state.handover, fold.state.doubt == Doubt::Contents), (Some(Withdrawn), false));
    // what left by a number before the doubt does not leave again
    let order = doubted(Status::AwaitingProcessing, Some(Accepted));
    let fixed = Fixed { strays: [5].into(), ..fixed };
    let mut fold = Fold::new(&order, (Known::default(), fixed));
    assert_eq!(one(&mut fold, &json!({"status": "delivered", "number": 5})), Err("contradiction"));
    assert!(fold.left.is_none() && fold.strays.is_empty());
}

/// Takes one report; returns the code of its refusal.
fn one(fold: &mut Fold<'_>, members: &Value) -> Result<(), &'static str> {
    fold.take(&row(0, members), moment(1)).map_err(|refused| refused.violation.code)
}

#[test]
fn a_number_decides_whether_the_warehouse_has_the_order() {
    use HandoverState::{Accepted, Pending, Refused, Sending, Withdrawing, Withdrawn};
    let (has, old, not_yet) = (Ok(()), Err("old_number"), Err("not_handed_over"));
    for (state, latest, number, expected) in [
        (Some(Accepted), 2, None, has),
        (Some(Sending), 2, Some(2), has),
        (Some(Withdrawing), 2, Some(2), has),
        (Some(Accepted), 2, Some(1), old),
        (Some(Accepted), 2, Some(0), old),
        (Some(Accepted), 2, Some(3), not_yet),
        (Some(Pending), 1, None, not_yet),
        (Some(Pending), 1, Some(0), not_yet),
        (Some(Pending), 1, Some(1), not_yet),
        (Some(Pending), 2, Some(2), not_yet),
        (Some(Pending), 2, Some(1), old),
        (Some(Pending), 2, None, old),
        (Some(Refused), 1, None, old),
        (Some(Withdrawn), 1, Some(1), old),
        (Some(Withdrawn), 1, Some(2), not_yet),
        (None, 1, None, old),
    ] {
        let order = order(Status::AwaitingProcessing, state);
        let mut fold = Fold::new(&order, (Known::default(), fixed(Some(latest))));
        let report = json!({"status": "take_out", "number": number});
        assert_eq!(one(&mut fold, &report), expected, "{state:?} {latest} {number:?}");
    }
    // by hand
    for (status, is_called, number, expected) in [
        (Status::AwaitingProcessing, false, None, has),
        (Status::AwaitingProcessing, false, Some(0), has),
        (Status::AwaitingProcessing, false, Some(1), not_yet),
        (Status::AwaitingProcessing, true, None, not_yet),
        (Status::TakeOut, true, None, has),
        (Status::StockOk, false, None, not_yet),
        (Status::OnHold, false, None, not_yet),
        (Status::Canceled, false, None, not_yet),
    ] {
        let order = order(status, None);
        let fixed = Fixed { is_called, ..fixed(None) };
        let mut fold = Fold::new(&order, (Known::default(), fixed));
        let report = json!({"status": "completion", "number": number});
        assert_eq!(one(&mut fold, &report), expected, "{status} {is_called} {number:?}");
    }
    // by a call, when the warehouse has begun with it
    let order = order(Status::TakeOut, Some(Accepted));
    for (number, expected) in [(None, has), (Some(1), has), (Some(0), old)] {
        let mut fold = Fold::new(&order, (Known::default(), fixed(Some(1))));
        assert_eq!(
            one(&mut fold, &json!({"status": "completion", "number": number})),
            expected,
            "{number:?}"
        );
    }
}

#[test]
fn what_a_warehouse_gives_back_although_it_has_begun_with_it_is_incorrect() {
    let order = order(Status::AwaitingProcessing, Some(HandoverState::Withdrawing));
    for (answer, status, handover) in [
        ("accepted", Status::Incorrect, HandoverState::Withdrawn),
        ("refused", Status::TakeOut, HandoverState::Accepted),
    ] {
        let mut fold = Fold::new(&order, (Known::default(), fixed(Some(1))));
        one(&mut fold, &json!({"status": "take_out", "number": 1})).unwrap();
        assert_eq!(fold.state.handover, Some(HandoverState::Withdrawing));
        one(&mut fold, &json!({"cancel": answer, "number": 1})).unwrap();
        assert_eq!((fold.state.status, fold.state.handover), (status, Some(handover)));
        assert_eq!(fold.gives_back(), answer == "accepted");
        let code = fold.state.errors.as_ref().map(|errors| errors[0]["code"].clone());
        assert_eq!(code, (answer == "accepted").then(|| json!("withdrawn")));
    }
}

#[test]
fn a_cancel_that_waits_is_decided_by_the_warehouse_and_packed_wins() {
    let waiting = |from| {
        let mut order = order(Status::WaitingForCancel, Some(HandoverState::Withdrawing));
        order.state.canceling_from = Some(from);
        order
    };
    let folded = |order: &Order, reports: &[Value]| {
        let mut fold = Fold::new(order, (Known::default(), fixed(Some(1))));
        for report in reports {
            one(&mut fold, report).unwrap();
        }
        let State { status, canceling_from, handover, .. } = fold.state;
        (status, canceling_from, handover, fold.cancel, fold.left.is_some())
    };
    let order = waiting(Status::TakeOut);
    let [accepted, refused] = ["accepted", "refused"].map(|cancel| json!({"cancel": cancel}));
    let [picked, completed, packed, early] =
        ["take_out", "completion", "delivered", "waiting_for_the_carrier"]
            .map(|status| json!({"status": status}));
    let withdrawing = Some(HandoverState::Withdrawing);
    let has = Some(HandoverState::Accepted);
    assert_eq!(
        folded(&order, std::slice::from_ref(&accepted)),
        (Status::Canceled, None, Some(HandoverState::Withdrawn), None, false)
    );
    assert_eq!(
        folded(&order, std::slice::from_ref(&refused)),
        (Status::TakeOut, None, has, Some("refused"), false)
    );
    assert_eq!(
        folded(&order, &[picked, completed.clone()]),
        (Status::WaitingForCancel, Some(Status::Completion), withdrawing, None, false)
    );
    assert_eq!(
        folded(&order, &[completed, refused]),
        (Status::Completion, None, has, Some("refused"), false)
    );
    assert_eq!(folded(&order, &[packed, early]), (Status::Delivered, None, has, Some("too_late"), true));
    let given_up = json!({"status": "incorrect", "errors": [{"message": "no"}]});
    assert_eq!(
        folded(&order, &[given_up]),
        (Status::Incorrect, None, Some(HandoverState::Refused), None, false)
    );
}

#[test]
fn what_was_reported_of_a_packed_order_is_not_contradicted_and_what_was_not_is_added() {
    let order = order(Status::WaitingForTheCarrier, Some(HandoverState::Accepted));
    let item = ExpeditionItemId::from_u128(100);
    let left = |lot: Option<&str>, serials: &[&str]| {
        let serials = serials.iter().map(|serial| (*serial).to_owned()).collect();
        let pieces = |item: &Item| (item.id, Left { pieces: item.quantity, ..Left::default() });
        let mut left: HashMap<_, _> = order.items.iter().map(pieces).collect();
        left.insert(item, Left { pieces: 1, lots: lot.into_iter().map(str::to_owned).collect(), serials });
        Fixed { left, ..fixed(Some(1)) }
    };
    let report = |members: Value| {
        let mut first = json!({"id": item, "expedited": 1});
        first.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        json!({"status": "delivered", "items": [
            first, {"id": Uuid::from_u128(101), "expedited": 3}, {"product": Uuid::from_u128(3), "expedited": 7},
        ]})
    };
    let (both, lot, other) = (
        json!({"lot": "L", "serialNumbers": ["S"]}),
        json!({"lot": "L"}),
        json!({"lot": "M", "serialNumbers": ["S"]}),
    );
    for (known, said, expected) in [
        (left(None, &[]), &both, Ok(Some((Some("L"), 1)))),
        (left(None, &["S"]), &lot, Ok(Some((Some("L"), 1)))),
        (left(Some("L"), &[]), &both, Ok(Some((Some("L"), 1)))),
        (left(Some("L"), &["S"]), &both, Ok(None)),
        (left(Some("L"), &["T", "S"]), &json!({"serialNumbers": ["S", "T"]}), Ok(None)),
        (left(Some("L"), &["S"]), &json!({"serialNumbers": ["T", "S"]}), Ok(Some((Some("L"), 2)))),
        (left(Some("L"), &["T", "S"]), &both, Ok(None)),
        (left(Some("L"), &["S"]), &json!({}), Ok(None)),
        (left(Some("L"), &["S"]), &other, Err("contradiction")),
        (left(Some("L"), &["T"]), &both, Err("contradiction")),
        (left(Some("L"), &["S"]), &json!({"expedited": 0}), Err("contradiction")),
    ] {
        let mut fold = Fold::new(&order, (Known::default(), known));
        let taken = one(&mut fold, &report(said.clone()));
        let added: Vec<_> = fold
            .detailed
            .iter()
            .map(|gone| (gone.left.lots.first().map(String::as_str), gone.left.serials.len()))
            .collect();
        assert_eq!(taken.map(|()| added.first().copied()), expected, "{said}");
    }
}

#[test]
fn what_left_of_a_canceled_order_can_be_tracked() {
    let parcels = |number: Option<i32>, numbers: &[&str]| {
        let parcels: Vec<_> = numbers
            .iter()
            .map(|n| json!({"extPackageNumber": n, "extPackageTrackingNumber": format!("T{n}")}))
            .collect();
        json!({"number": number, "parcels": parcels})
    };
    let packed = |number| {
        let mut packed = parcels(number, &["1"]);
        packed["status"] = json!("carrier_picked_up");
        packed
    };
    let canceled = order(Status::Canceled, Some(HandoverState::Withdrawn));
    let mut fold = Fold::new(&canceled, (Known::default(), fixed(Some(1))));
    assert!(one(&mut fold, &parcels(None, &["1"])).is_err(), "it has not left");
    assert_eq!(one(&mut fold, &packed(None)), Err("contradiction"));
    one(&mut fold, &parcels(None, &["2"])).unwrap();
    assert_eq!((fold.state.status, fold.strays.len(), fold.known.parcels.len()), (Status::Canceled, 1, 2));
    assert_eq!(fold.known.tracking.number.as_deref(), Some("T1"));
    assert!(fold.is_change());
    // one that is handed over again has parcels of its own
    let held = order(Status::OnHold, Some(HandoverState::Withdrawn));
    let mut fold = Fold::new(&held, (Known::default(), fixed(Some(1))));
    assert_eq!(one(&mut fold, &packed(Some(1))), Err("contradiction"));
    assert_eq!(one(&mut fold, &parcels(Some(1), &["2"])), Err("old_number"));
    assert_eq!((fold.strays.len(), fold.known.parcels.len(), fold.is_change()), (1, 0, false));
}

#[test]
fn what_an_order_is_tracked_by_follows_its_parcel() {
    let order = order(Status::AwaitingProcessing, Some(HandoverState::Accepted));
    let mut fold = Fold::new(&order, (Known::default(), fixed(Some(1))));
    let parcel = |tracking: &str| json!({"extPackageNumber": "1", "extPackageTrackingNumber": tracking});
    for (parcels, tracking) in [(json!([parcel("a"), parcel("b")]), "b"), (json!([parcel("c")]), "c")] {
        one(&mut fold, &json!({"parcels": parcels})).unwrap();
        assert_eq!(fold.known.tracking.number.as_deref(), Some(tracking));
    }
}

#[test]
fn an_order_has_a_bounded_number_of_parcels() {
    let order = order(Status::AwaitingProcessing, Some(HandoverState::Accepted));
    let mut fold = Fold::new(&order, (Known::default(), fixed(Some(1))));
    let parcels = |from: usize, count: usize| -> Value {
        let parcels = (from..from + count).map(|n| json!({"extPackageNumber": n.to_string()}));
        json!({"parcels": parcels.collect::<Vec<_>>()})
    };
    for from in (0..MAX_PARCELS).step_by(100) {
        one(&mut fold, &parcels(from, 100)).unwrap();
    }
    assert_eq!(one(&mut fold, &parcels(MAX_PARCELS - 1, 2)), Err("too_many"));
    one(&mut fold, &parcels(MAX_PARCELS - 2, 2)).unwrap();
    assert_eq!(fold.known.parcels.len(), MAX_PARCELS);
}

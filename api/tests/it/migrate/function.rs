//! The functions of `migrations/functions`: each has one text, which can be applied any number of times.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use longshore_kernel::migration::{FUNCTIONS, Function, MIGRATIONS, migrate_by, to_apply};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection};

use super::{PATIENCE, empty};

/// The functions that the numbered migrations need themselves.
const NUMBERED: [&str; 7] = [
    "uuid_v7",
    "uuid_v7_at",
    "uuid_v7_floor",
    "uuid_v7_moment",
    "version_floor",
    "handover_floor",
    "can_be_cancelled",
];

/// The same functions with other texts.
fn edited() -> Vec<Function> {
    FUNCTIONS.iter().map(|(name, text)| (*name, &*format!("{text}-- edited\n").leak())).collect()
}

/// Functions and triggers: each with its definition and rights, and with the transaction that wrote it.
async fn found(connection: &mut PgConnection) -> BTreeMap<String, (String, String)> {
    let rows: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT oid::regprocedure::text, concat(pg_get_functiondef(oid), proacl), xmin::text
         FROM pg_proc WHERE pronamespace = 'public'::regnamespace
         UNION ALL
         SELECT concat(tgname, ' on ', tgrelid::regclass), concat(pg_get_triggerdef(oid), tgenabled), xmin::text
         FROM pg_trigger WHERE NOT tgisinternal",
    )
    .fetch_all(connection)
    .await
    .unwrap();
    rows.into_iter().map(|(name, definition, written)| (name, (definition, written))).collect()
}

#[sqlx::test(migrations = false)]
async fn functions_are_applied_when_their_text_changes_and_then_change_nothing_else(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    empty(&options).await;
    let migrate = async |functions: &[Function]| {
        migrate_by(&MIGRATIONS, functions, &options, PATIENCE).await.unwrap();
        let mut connection = PgConnection::connect_with(&options).await.unwrap();
        assert_eq!(to_apply(functions, &mut connection).await.unwrap(), []);
        found(&mut connection).await
    };
    let new = migrate(FUNCTIONS).await;
    assert!(new.len() > FUNCTIONS.len(), "{new:?}");
    assert_eq!(migrate(FUNCTIONS).await, new, "nothing is applied again");

    let mut one = FUNCTIONS.to_vec();
    let in_wms = one.iter_mut().find(|(name, _)| *name == "in_wms").unwrap();
    in_wms.1 = in_wms.1.replace("bound IS NULL OR", "bound IS NOT NULL AND").leak();
    let other = migrate(&one).await;
    let changed: Vec<_> = other.iter().filter(|(name, is)| new.get(*name) != Some(*is)).collect();
    let [(name, (definition, _))] = changed[..] else { panic!("{changed:?}") };
    assert_eq!(name, "in_wms(uuid,uuid)");
    assert!(definition.contains("bound IS NOT NULL"), "{definition}");

    let again = migrate(&edited()).await;
    let definitions = |found: &BTreeMap<String, (String, String)>| -> Vec<_> {
        found.iter().map(|(name, (definition, _))| (name.clone(), definition.clone())).collect()
    };
    assert_eq!(definitions(&again), definitions(&new));
    for (name, (_, written)) in &again {
        let is_numbered = NUMBERED.contains(&name.split('(').next().unwrap());
        assert_eq!(*written == new[name].1, is_numbered, "{name}");
    }
}

#[test]
fn each_function_has_one_text() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations");
    let numbered =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let mut texts: Vec<_> =
        numbered.map(|path| (path.display().to_string(), fs::read_to_string(path).unwrap())).collect();
    texts.extend(FUNCTIONS.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())));
    let mut homes = BTreeMap::new();
    for (home, text) in &texts {
        let mut defined: Vec<_> = text
            .lines()
            .filter_map(|line| {
                line.strip_prefix("CREATE FUNCTION ").or(line.strip_prefix("CREATE OR REPLACE FUNCTION "))
            })
            .map(|definition| definition.split_once('(').unwrap().0)
            .collect();
        // those of one name, with other arguments, are one text
        defined.dedup();
        for name in defined {
            assert_eq!(homes.insert(name, home), None, "{name} of {home} has another text");
        }
    }
    for (name, text) in FUNCTIONS {
        assert_eq!(homes.get(name).map(|home| home.as_str()), Some(*name));
        // the triggers come last, so that each is applied alone
        for trigger in text.split("CREATE OR REPLACE TRIGGER ").skip(1) {
            assert_eq!(trigger.matches(";\n").count(), 1, "{name}: {trigger}");
            assert!(trigger.contains(&format!("EXECUTE FUNCTION {name}(")), "{name}: {trigger}");
        }
    }
    assert_eq!(homes.len(), FUNCTIONS.len() + NUMBERED.len());
}

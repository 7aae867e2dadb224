//! Dotted paths as regular expressions. Listed in full, the paths of all lists would be most of the document,
//! so each way to related records, and each field, is written once.

use std::collections::{BTreeMap, BTreeSet};

/// Bytes that a pattern has in the document. It is the name of a member there, and readers of YAML take no longer ones: a key
/// without a `?` before it has at most 1,024 characters (YAML 1.2, 7.4.2).
const LONGEST: usize = 1_000;

/// A pattern that matches exactly these paths: `^(name|(organisation|eshops\.organisation)\.(id|name))$`.
fn exactly(paths: &[&str]) -> String {
    let (mut parts, ways) = split(paths);
    // ways to records of the same kind share their fields
    let mut by_fields: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
    for (way, fields) in ways {
        by_fields.entry(fields).or_default().push(way);
    }
    parts.extend(by_fields.iter().map(|(fields, ways)| format!("{}\\.{}", either(ways), either(fields))));
    format!("^({})$", parts.join("|"))
}

/// A pattern that matches these paths, and any field at the end of the same ways:
/// `^(name|organisation\.\w+)$`.
pub(super) fn along<K>(own: &[(K, String)], related: &[(K, String)]) -> String {
    let mut parts: Vec<_> = own.iter().map(|(_, path)| path.replace('.', "\\.")).collect();
    let ways: BTreeSet<_> = related.iter().filter_map(|(_, path)| Some(path.rsplit_once('.')?.0)).collect();
    let ways: Vec<_> = ways.into_iter().collect();
    if !ways.is_empty() {
        parts.push(format!("{}\\.\\w+", either(&ways)));
    }
    format!("^({})$", parts.join("|"))
}

/// For each kind, patterns of the related paths that end with a field of that kind: `\.(name|vatNumber)$`.
/// No pattern matches a path of another kind, and none is too long for a name.
pub(super) fn ends<K: Copy + Ord>(related: &[(K, String)], own: &[(K, String)]) -> Vec<(String, K)> {
    let mut kinds: BTreeMap<&str, BTreeSet<K>> = BTreeMap::new();
    for (kind, path) in related.iter().chain(own.iter().filter(|(_, path)| path.contains('.'))) {
        kinds.entry(end(path)).or_default().insert(*kind);
    }
    let mut clear: BTreeMap<K, BTreeSet<&str>> = BTreeMap::new();
    let mut ambiguous: BTreeMap<K, Vec<&str>> = BTreeMap::new();
    for (kind, path) in related {
        if kinds[end(path)].len() == 1 {
            clear.entry(*kind).or_default().insert(end(path));
        } else {
            ambiguous.entry(*kind).or_default().push(path);
        }
    }
    let ending = |ends: &[&str]| format!("\\.{}$", either(ends));
    let mut patterns = Vec::new();
    for (kind, ends) in clear {
        let ends: Vec<_> = ends.into_iter().collect();
        patterns.extend(short(&ends, &ending).into_iter().map(|pattern| (pattern, kind)));
    }
    for (kind, paths) in ambiguous {
        patterns.extend(short(&paths, &exactly).into_iter().map(|pattern| (pattern, kind)));
    }
    patterns
}

/// The pattern of names, or those of each half of them where it is too long.
fn short(names: &[&str], pattern: &dyn Fn(&[&str]) -> String) -> Vec<String> {
    let whole = pattern(names);
    // JSON doubles the backslashes
    let length = whole.len() + whole.matches('\\').count();
    if length <= LONGEST || names.len() < 2 {
        return vec![whole];
    }
    let (one, other) = names.split_at(names.len() / 2);
    [short(one, pattern), short(other, pattern)].concat()
}

fn end(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// Paths of one step, and the last steps of the others grouped by the way to them.
fn split<'p>(paths: &[&'p str]) -> (Vec<String>, BTreeMap<&'p str, Vec<&'p str>>) {
    let mut single = Vec::new();
    let mut ways: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for path in paths {
        match path.rsplit_once('.') {
            Some((way, field)) => ways.entry(way).or_default().push(field),
            None => single.push((*path).to_owned()),
        }
    }
    (single, ways)
}

fn either(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| name.replace('.', "\\.")).collect();
    match &names[..] {
        [one] => one.clone(),
        several => format!("({})", several.join("|")),
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, along, ends, exactly};

    #[test]
    fn each_field_is_written_once_for_all_ways_to_it() {
        let paths = [
            "name",
            "organisation.id",
            "organisation.name",
            "eshops.organisation.id",
            "eshops.organisation.name",
        ];
        assert_eq!(exactly(&paths), r"^(name|(eshops\.organisation|organisation)\.(id|name))$");
        assert_eq!(exactly(&["wms.id"]), r"^(wms\.id)$");
    }

    fn of<K: Copy>(paths: &[(K, &str)]) -> Vec<(K, String)> {
        paths.iter().map(|(kind, path)| (*kind, (*path).to_owned())).collect()
    }

    #[test]
    fn ways_lead_to_related_records_only() {
        let (own, related) =
            (of(&[((), "name"), ((), "entity.id")]), of(&[((), "eshop.id"), ((), "eshop.name")]));
        assert_eq!(along(&own, &related), r"^(name|entity\.id|eshop\.\w+)$");
    }

    #[test]
    fn a_field_name_of_two_kinds_is_written_with_its_way() {
        let related = of(&[
            ('t', "organisation.name"),
            ('t', "organisation.code"),
            ('i', "carrier.code"),
            ('i', "carrier.state"),
        ]);
        let patterns = ends(&related, &of(&[('t', "entity.state"), ('i', "name")]));
        let expected =
            [(r"\.name$", 't'), (r"^(carrier\.(code|state))$", 'i'), (r"^(organisation\.code)$", 't')];
        assert_eq!(patterns, expected.map(|(pattern, kind)| (pattern.to_owned(), kind)));
    }

    #[test]
    fn the_fields_of_a_kind_are_cut_into_patterns_that_are_short_enough() {
        let names: Vec<String> = (0..300).map(|n| format!("field{n:03}")).collect();
        let related: Vec<_> = names.iter().map(|name| ('t', format!("organisation.{name}"))).collect();
        let patterns = ends(&related, &[]);
        assert!(patterns.iter().all(|(pattern, kind)| pattern.len() < LONGEST && *kind == 't'));
        let found: Vec<&str> = patterns
            .iter()
            .flat_map(|(pattern, _)| pattern.trim_matches(['\\', '.', '(', ')', '$']).split('|'))
            .collect();
        assert_eq!(found, names);
        // where the way says the kind, too
        let other: Vec<_> = names.iter().map(|name| ('i', format!("carrier.{name}"))).collect();
        let patterns = ends(&[related, other].concat(), &[]);
        assert!(patterns.len() > 2 && patterns.iter().all(|(pattern, _)| pattern.len() < LONGEST));
    }
}

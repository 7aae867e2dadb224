//! Commands that a script may still call here, and that are commands of `longshore`.

/// What to say to arguments of such a command.
#[must_use]
pub fn moved(arguments: impl IntoIterator<Item = String>) -> Option<String> {
    let mut arguments = arguments.into_iter().skip(1);
    let mut command = arguments.next()?;
    if command == "token" {
        command.push(' ');
        command.push_str(&arguments.next()?);
    }
    let is_moved = ["job", "sync", "webhook", "token list", "token revoke"].contains(&command.as_str());
    is_moved.then(|| format!("error: `longshore-api {command}` is `longshore {command}` now"))
}

#[cfg(test)]
mod tests {
    use super::moved;

    #[test]
    fn only_a_command_that_was_moved_is_named() {
        let said = |line: &str| moved(line.split(' ').map(str::to_owned));
        let expected = "error: `longshore-api job` is `longshore job` now";
        assert_eq!(said("longshore-api job list").as_deref(), Some(expected));
        assert!(
            said("longshore-api token revoke 7")
                .is_some_and(|said| said.contains("`longshore token revoke`"))
        );
        for line in
            ["longshore-api", "longshore-api serve", "longshore-api token", "longshore-api token create"]
        {
            assert_eq!(said(line), None, "{line}");
        }
    }
}

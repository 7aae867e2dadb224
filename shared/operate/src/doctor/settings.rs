//! Settings that contradict each other, and those that are for development only.

use ipnet::IpNet;

use super::{Finding, Patient};

/// What it is called in the report.
const SETTINGS: &str = "settings";

pub(super) fn examine(patient: &Patient) -> Vec<Finding> {
    let mut findings = Vec::new();
    objects(patient, &mut findings);
    outbound(patient, &mut findings);
    limits(patient, &mut findings);
    if findings.is_empty() {
        findings.push(Finding::ok(SETTINGS, "no contradictions"));
    }
    findings
}

fn objects(patient: &Patient, findings: &mut Vec<Finding>) {
    let objects = &patient.objects;
    if objects.object_store.starts_with("s3://") {
        return;
    }
    if objects.s3_endpoint.is_some() || objects.s3_access_key_id.is_some() {
        findings.push(Finding::fail(
            SETTINGS,
            format!("S3 is configured, but images are stored in the folder {:?}", objects.object_store),
            "set LONGSHORE_OBJECT_STORE to s3://bucket, or remove the LONGSHORE_S3_… settings",
        ));
    } else if std::path::Path::new(&objects.object_store).is_relative() {
        findings.push(Finding::warn(
            SETTINGS,
            format!(
                "the object store {:?} depends on the working directory of the process",
                objects.object_store
            ),
            "set LONGSHORE_OBJECT_STORE to an absolute path that api and worker share, or to s3://bucket",
        ));
    }
}

fn outbound(patient: &Patient, findings: &mut Vec<Finding>) {
    let outbound = &patient.outbound;
    if outbound.webhook_allow_http {
        findings.push(Finding::warn(
            SETTINGS,
            "webhooks may be sent to http destinations, unencrypted",
            "remove LONGSHORE_WEBHOOK_ALLOW_HTTP; it is for development only",
        ));
    }
    if !outbound.webhook_allow_subnets.is_empty() {
        let subnets: Vec<_> = outbound.webhook_allow_subnets.iter().map(IpNet::to_string).collect();
        findings.push(Finding::warn(
            SETTINGS,
            format!("webhooks may reach private addresses: {}", subnets.join(", ")),
            "remove LONGSHORE_WEBHOOK_ALLOW_SUBNETS, unless e-shops are in these subnets",
        ));
    }
}

fn limits(patient: &Patient, findings: &mut Vec<Finding>) {
    let limits = &patient.limits;
    if limits.rate_limit > limits.rate_limit_burst {
        findings.push(Finding::warn(
            SETTINGS,
            format!(
                "an account may make {} requests a second, but only {} at once",
                limits.rate_limit, limits.rate_limit_burst
            ),
            "raise LONGSHORE_RATE_LIMIT_BURST to at least LONGSHORE_RATE_LIMIT",
        ));
    }
    if limits.body_stall_seconds >= limits.request_seconds {
        findings.push(Finding::warn(
            SETTINGS,
            format!(
                "a body may stall for {} s, but the request must be answered within {} s",
                limits.body_stall_seconds, limits.request_seconds
            ),
            "lower LONGSHORE_BODY_STALL_SECONDS below LONGSHORE_REQUEST_SECONDS",
        ));
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::super::Verdict;
    use super::*;

    fn examined(arguments: &[&str]) -> Vec<(Verdict, String)> {
        let command = Patient::augment_args(Command::new("test"));
        let given = ["test", "--encryption-key", "k:x", "--object-store"];
        // an absolute one, unless the test has its own
        let place = if arguments.contains(&"--object-store") { &given[..3] } else { &given[..] };
        let store = if place.len() == 4 { &["/srv/objects"][..] } else { &[] };
        let matches = command.try_get_matches_from(place.iter().chain(store).chain(arguments)).unwrap();
        let findings = examine(&Patient::from_arg_matches(&matches).unwrap());
        findings.into_iter().map(|f| (f.verdict, f.found)).collect()
    }

    #[test]
    fn settings_as_they_should_be_are_one_line() {
        assert_eq!(examined(&[]), [(Verdict::Ok, "no contradictions".to_owned())]);
        assert_eq!(examined(&["--object-store", "s3://bucket"])[0].0, Verdict::Ok);
    }

    #[test]
    fn each_contradiction_is_named() {
        for (arguments, verdict, found) in [
            (&["--s3-endpoint", "https://s3.example"][..], Verdict::Fail, "S3 is configured"),
            (&["--object-store", "objects"], Verdict::Warn, "depends on the working directory"),
            (&["--webhook-allow-http"], Verdict::Warn, "unencrypted"),
            (&["--webhook-allow-subnets", "10.0.0.0/8"], Verdict::Warn, "10.0.0.0/8"),
            (&["--rate-limit", "100", "--rate-limit-burst", "99"], Verdict::Warn, "only 99 at once"),
            (&["--request-seconds", "61", "--body-stall-seconds", "61"], Verdict::Warn, "may stall for 61 s"),
        ] {
            let findings = examined(arguments);
            assert_eq!(findings.len(), 1, "{arguments:?}: {findings:?}");
            assert_eq!(findings[0].0, verdict, "{arguments:?}");
            assert!(findings[0].1.contains(found), "{arguments:?}: {findings:?}");
        }
    }
}

//! A test of the connection to the system of a warehouse: a signed `GET` of an order that does not exist
//! (`docs/reference/warehouse-systems.md#connection-test`). It is made outside of the lane: it holds up no order, and says nothing to
//! the breaker.

use http::{Method, StatusCode};
use longshore_domain::expedition::handover::setting::trial::Contact;
use longshore_kernel::ids::ExpeditionId;

use super::HandoverContext;
use super::call::{ANSWER_READ, address, signed};
use crate::outbound::Call;

/// The number of the hand-over that it names: none has it.
const NUMBER: u8 = 0;

/// Calls once. What happened is a sentence for an operator: `Ok` if orders can be handed over as far as a call that changes nothing
/// can tell.
pub async fn test(context: &HandoverContext, contact: &Contact) -> Result<String, String> {
    let Some(call) = call(context, contact) else {
        return Err("baseUrl of the setting is not a valid URL: correct it".to_owned());
    };
    match context.client.call(call).await {
        Ok(reply) => meaning(reply.status),
        Err(error) => Err(format!("the system could not be read: {error}")),
    }
}

fn call(context: &HandoverContext, contact: &Contact) -> Option<Call> {
    let expedition = ExpeditionId::new().to_string();
    let key = format!("{expedition}.{NUMBER}");
    let timestamp = contact.time.now().timestamp();
    let headers = signed(&contact.signer, contact.authentication.as_ref(), &key, timestamp, b"")?;
    Some(Call {
        method: Method::GET,
        url: address(&contact.base_url, &expedition)?,
        headers,
        body: bytes::Bytes::new(),
        deadline: context.deadline,
        answer_bytes: ANSWER_READ,
    })
}

fn meaning(status: StatusCode) -> Result<String, String> {
    let status = status.as_u16();
    match status {
        404 | 410 => Ok(format!("the system answers as it should: it has no such order (HTTP {status})")),
        405 | 501 => Ok(format!(
            "the system can be reached; it knows no connection test (HTTP {status}), so the credentials and the signature were not checked"
        )),
        200..=299 => Err(format!(
            "the address answers HTTP {status} about an order that does not exist: it is probably not the system of the warehouse; check baseUrl"
        )),
        300..=399 => Err(format!(
            "the system answers with a redirect (HTTP {status}), which is not followed: set baseUrl to its target"
        )),
        401 | 403 => Err(format!(
            "the system refuses the credentials or the signature (HTTP {status}): check the credentials of the setting, and the secret that the system has"
        )),
        _ => Err(format!("the system answers HTTP {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_denies_the_order_is_healthy() {
        let meaning = |status| meaning(StatusCode::from_u16(status).unwrap());
        for (status, says) in
            [(404, "no such order"), (410, "no such order"), (405, "not checked"), (501, "not checked")]
        {
            assert!(meaning(status).unwrap().contains(says), "{status}");
        }
        for (status, says) in [
            (200, "check baseUrl"),
            (301, "redirect"),
            (401, "refuses"),
            (403, "refuses"),
            (400, "HTTP 400"),
            (503, "HTTP 503"),
        ] {
            assert!(meaning(status).unwrap_err().contains(says), "{status}");
        }
    }
}

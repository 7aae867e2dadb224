//! Why there is no TLS connection, in words for those who run the other side.

use std::borrow::Cow;

use rustls::{AlertDescription, CertificateError, Error};

/// What is wrong, and what to do. It does not name the other hosts of a certificate: they reveal who else uses an address.
pub(super) fn sentence(error: &Error) -> Cow<'static, str> {
    Cow::Borrowed(match error {
        Error::InvalidCertificate(wrong) => return certificate(wrong),
        Error::NoCertificatesPresented => "the server has no certificate; install one",
        Error::InvalidMessage(_) => {
            "the server does not answer in TLS; the port is perhaps that of plain HTTP"
        }
        Error::PeerIncompatible(_)
        | Error::AlertReceived(
            AlertDescription::ProtocolVersion
            | AlertDescription::HandshakeFailure
            | AlertDescription::InsufficientSecurity,
        ) => {
            "the server has no version or cipher of TLS in common with this service; it must know TLS 1.2 or 1.3"
        }
        Error::AlertReceived(AlertDescription::UnrecognisedName) => {
            "the server knows no site of this host name; correct the name, or add the site to the server"
        }
        Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::AccessDenied,
        ) => "the server asks for a certificate of its client, and this service has none; switch that off",
        Error::AlertReceived(alert) => {
            return format!("the server ended the TLS handshake with the alert {alert:?}; its log says why")
                .into();
        }
        Error::NoApplicationProtocol => "the server knows neither HTTP/1.1 nor HTTP/2",
        Error::General(_) | Error::Other(_) => return format!("TLS failed: {error}").into(),
        _ => return format!("the server breaks the rules of TLS: {error}").into(),
    })
}

fn certificate(wrong: &CertificateError) -> Cow<'static, str> {
    Cow::Borrowed(match wrong {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate of the server has expired; renew it"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate of the server is not valid yet; wait, or correct the clock of the machine that made it"
        }
        CertificateError::Revoked => "the certificate of the server was revoked; install a new one",
        CertificateError::UnknownIssuer => {
            "the certificate of the server is not from an authority that is trusted here; install one that is, with all intermediate certificates"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate of the server is for other host names; install one for this name"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the certificate is not for servers; install one whose purpose is server authentication"
        }
        CertificateError::BadEncoding
        | CertificateError::BadSignature
        | CertificateError::UnhandledCriticalExtension => {
            "the certificate of the server is damaged, or of a kind that is not supported; install a new one"
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the certificate of the server is signed with an algorithm that is not supported, such as SHA-1; install a new one"
        }
        // the names of the verifier's own errors are all that it says
        CertificateError::Other(other) => match other.to_string().as_str() {
            name if name.contains("CaUsedAsEndEntity") => {
                "the certificate of the server is that of an authority (CA:TRUE), as of one that was signed by itself; install one that an authority has issued for this name"
            }
            name if ["EndEntityUsedAsCa", "PathLenConstraintViolated", "NameConstraintViolation"]
                .iter()
                .any(|constraint| name.contains(constraint)) =>
            {
                "the certificate of the server is from an issuer that may not issue it; install one from another authority"
            }
            _ => {
                "the certificate of the server is damaged, or of a kind that is not supported; install a new one"
            }
        },
        other => return format!("the certificate of the server was refused: {other}").into(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::{InvalidMessage, OtherError, PeerIncompatible};

    use super::*;

    #[test]
    fn an_error_of_tls_is_a_sentence_that_says_what_to_do() {
        let other = |name: &str| {
            CertificateError::Other(OtherError(Arc::new(std::io::Error::other(name.to_owned()))))
        };
        for (error, says) in [
            (Error::InvalidCertificate(other("CaUsedAsEndEntity")), "(CA:TRUE)"),
            (Error::InvalidCertificate(other("EndEntityUsedAsCa")), "may not issue it"),
            (Error::InvalidCertificate(other("MalformedExtensions")), "damaged"),
            (Error::InvalidCertificate(CertificateError::UnknownIssuer), "intermediate certificates"),
            (Error::InvalidCertificate(CertificateError::Expired), "renew it"),
            (Error::InvalidCertificate(CertificateError::NotValidYet), "clock"),
            (Error::InvalidCertificate(CertificateError::NotValidForName), "for this name"),
            (Error::InvalidMessage(InvalidMessage::InvalidContentType), "plain HTTP"),
            (Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13), "TLS 1.2 or 1.3"),
            (Error::AlertReceived(AlertDescription::ProtocolVersion), "TLS 1.2 or 1.3"),
            (Error::AlertReceived(AlertDescription::UnrecognisedName), "host name"),
            (Error::AlertReceived(AlertDescription::CertificateRequired), "switch that off"),
            (Error::AlertReceived(AlertDescription::InternalError), "InternalError"),
        ] {
            let said = sentence(&error);
            assert!(said.contains(says) && !said.contains("Error("), "{error:?}: {said}");
        }
    }
}

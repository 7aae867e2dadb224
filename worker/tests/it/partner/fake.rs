//! A fake partner: it serves real HTTP on a loopback port, answers by a rule that reads the request, and
//! misbehaves on request. All requests use one path; the rule distinguishes them by their contents.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use longshore_testkit::receiver::{Answer, By, Document, Receipt, Receiver};

/// A fake partner.
pub(crate) struct Fake {
    receiver: Receiver,
    faults: Arc<Mutex<VecDeque<Option<Answer>>>>,
}

impl Fake {
    /// Starts one that answers by a rule.
    pub(crate) async fn start(rule: impl Fn(&Receipt) -> Answer + Send + Sync + 'static) -> Self {
        let receiver = Receiver::start().await.unwrap();
        let faults: Arc<Mutex<VecDeque<Option<Answer>>>> = Arc::default();
        let next = Arc::clone(&faults);
        receiver.answer_all(Answer::By(By::new(move |receipt| {
            let fault = next.lock().unwrap().pop_front().flatten();
            fault.unwrap_or_else(|| rule(receipt))
        })));
        Self { receiver, faults }
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        self.receiver.url("/")
    }

    /// Sets the answers to the next requests, `None` for the usual one; later requests get the usual ones.
    pub(crate) fn misbehave(&self, faults: impl IntoIterator<Item = Option<Answer>>) {
        self.faults.lock().unwrap().extend(faults);
    }

    /// All requests, in order.
    pub(crate) fn receipts(&self) -> Vec<Receipt> {
        self.receiver.receipts()
    }

    /// The underlying receiver, for waits.
    pub(crate) fn receiver(&self) -> &Receiver {
        &self.receiver
    }
}

/// A 200 with this body.
pub(crate) fn document(body: impl Into<Vec<u8>>) -> Document {
    Document { body: body.into().into(), ..Document::default() }
}

//! A partner of our own: it speaks real HTTP on a loopback port, answers by a rule that looks at the request, and
//! misbehaves by command. Whatever is called comes to one path; a rule tells requests apart by what they say.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use longshore_bench::receiver::{Answer, By, Document, Receipt, Receiver};

/// A partner.
pub(crate) struct Fake {
    receiver: Receiver,
    faults: Arc<Mutex<VecDeque<Option<Answer>>>>,
}

impl Fake {
    /// One that answers by a rule.
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

    /// Its address.
    pub(crate) fn url(&self) -> String {
        self.receiver.url("/")
    }

    /// Has the next requests answered like this, `None` being as usual; those after them as usual.
    pub(crate) fn misbehave(&self, faults: impl IntoIterator<Item = Option<Answer>>) {
        self.faults.lock().unwrap().extend(faults);
    }

    /// Every request that came, in order.
    pub(crate) fn receipts(&self) -> Vec<Receipt> {
        self.receiver.receipts()
    }

    /// The receiver below, for waiting.
    pub(crate) fn receiver(&self) -> &Receiver {
        &self.receiver
    }
}

/// A 200 with this body.
pub(crate) fn document(body: impl Into<Vec<u8>>) -> Document {
    Document { body: body.into().into(), ..Document::default() }
}

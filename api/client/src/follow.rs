//! The progress of a job, as server-sent events.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Response;
use reqwest::header::ACCEPT;
use uuid::Uuid;

use crate::client::Client;
use crate::error::Error;
use crate::record::Job;
use crate::retry::Waits;

/// How long the progress of a job may be silent: the service sends a sign of life every 15 seconds.
const SILENCE: Duration = Duration::from_mins(1);

/// How often in a row the progress of a job may break off without an event.
const BREAKS: u32 = 8;

/// A state of a job.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JobEvent {
    /// The job.
    pub job: Job,
    /// The job as the service wrote it, in JSON.
    pub text: String,
    /// Whether the job has ended: no further event follows.
    pub is_end: bool,
}

/// The states of a job, from now to its end; made by [`Client::follow_job`].
///
/// A connection that breaks or is silent for a minute is opened again, and the first event after that is the
/// current state: intermediate states may be missing, the last one never is.
#[derive(Debug)]
pub struct JobEvents {
    client: Client,
    job: Uuid,
    response: Option<Response>,
    unread: Vec<u8>,
    events: VecDeque<JobEvent>,
    waits: Waits,
    /// How often it broke off since the last event.
    breaks: u32,
    ended: bool,
}

impl JobEvents {
    /// Waits for the next state; `None` after the end of the job.
    ///
    /// # Errors
    /// [`Error::Problem`] when the service refuses, for example because there is no such job;
    /// [`Error::Unreachable`], [`Error::Problem`] with 5xx, or [`Error::Interrupted`] after eight attempts in
    /// a row without an event; [`Error::Unexpected`] when an event is not a job.
    pub async fn next(&mut self) -> Result<Option<JobEvent>, Error> {
        loop {
            if let Some(event) = self.events.pop_front() {
                self.ended = event.is_end;
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            match self.receive().await {
                Ok(Some(piece)) => self.read(&piece)?,
                Ok(None) => self.broke_off(None).await?,
                Err(error) => self.broke_off(Some(error)).await?,
            }
        }
    }

    /// The next piece of the stream, which is opened if necessary; `None` where it breaks off.
    async fn receive(&mut self) -> Result<Option<Bytes>, Error> {
        if self.response.is_none() {
            let path = format!("/api/job/{}/events", self.job);
            let call = self.client.get::<Job>(path).header(ACCEPT.as_str(), "text/event-stream");
            self.response = Some(call.retry(crate::RetryPolicy::never()).without_timeout().stream().await?);
        }
        let Some(response) = &mut self.response else { return Ok(None) };
        // cut off or silent
        Ok(tokio::time::timeout(SILENCE, response.chunk()).await.ok().and_then(Result::ok).flatten())
    }

    /// Waits before the stream is opened again, unless that would not help.
    async fn broke_off(&mut self, error: Option<Error>) -> Result<(), Error> {
        self.response = None;
        self.unread.clear();
        self.breaks += 1;
        let passing = error.as_ref().is_none_or(|error| {
            // a 5xx may also come from a proxy before the service
            matches!(error, Error::Unreachable { .. }) || error.status().is_some_and(|status| status >= 500)
        });
        if !passing || self.breaks >= BREAKS {
            let base = self.client.base().to_owned();
            return Err(error.unwrap_or(Error::Interrupted { job: self.job, base, breaks: self.breaks }));
        }
        tokio::time::sleep(self.waits.next()).await;
        Ok(())
    }

    fn read(&mut self, piece: &[u8]) -> Result<(), Error> {
        self.unread.extend_from_slice(piece);
        while let Some(end) = self.unread.windows(2).position(|two| two == b"\n\n") {
            let event: Vec<u8> = self.unread.drain(..end + 2).collect();
            let Some((name, text)) = event_in(&String::from_utf8_lossy(&event)) else { continue };
            let job = serde_json::from_str(&text).map_err(|error| Error::Unexpected {
                call: format!("GET /api/job/{}/events", self.job),
                base: self.client.base().to_owned(),
                status: 200,
                reason: error.to_string(),
            })?;
            self.breaks = 0;
            self.waits.reset();
            self.events.push_back(JobEvent { job, text, is_end: name == "end" });
        }
        Ok(())
    }
}

impl Client {
    /// The states of a job until it ends, the current one first.
    #[must_use]
    pub fn follow_job(&self, job: Uuid) -> JobEvents {
        JobEvents {
            client: self.clone(),
            job,
            response: None,
            unread: Vec::new(),
            events: VecDeque::new(),
            waits: self.retry().waits(),
            breaks: 0,
            ended: false,
        }
    }

    /// Waits for the end of a job, however long it takes: succeeded, failed or cancelled.
    ///
    /// # Errors
    /// As [`JobEvents::next`].
    pub async fn job_ended(&self, job: Uuid) -> Result<Job, Error> {
        let mut events = self.follow_job(job);
        while let Some(event) = events.next().await? {
            if event.is_end {
                return Ok(event.job);
            }
        }
        self.job(job).send().await
    }
}

/// The name and data of a server-sent event; `None` for a comment.
fn event_in(text: &str) -> Option<(String, String)> {
    let field = |name: &str| {
        let values: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(|value| value.strip_prefix(' ').unwrap_or(value))
            .collect();
        (!values.is_empty()).then(|| values.join("\n"))
    };
    Some((field("event").unwrap_or_default(), field("data")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_sent_events_are_read_and_comments_are_skipped() {
        let read = event_in("event: progress\ndata: {\"a\":\ndata: 1}\n\n").unwrap();
        assert_eq!(read, ("progress".to_owned(), "{\"a\":\n1}".to_owned()));
        assert_eq!(event_in(":\n\n"), None);
        assert_eq!(event_in("data:x\n\n"), Some((String::new(), "x".to_owned())));
    }
}

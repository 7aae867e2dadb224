#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! Each imports only from earlier ones: `error` is what can go wrong, `retry` decides when a request is repeated,
//! `rows` are bodies that are streamed; `client` is where the service is, and `call` makes a request and reads its
//! answer; `record` and `list` are what operations answer, `operation` has a method for each, and `follow` shows the
//! progress of a job.

mod call;
mod client;
mod error;
mod follow;
mod list;
mod operation;
mod record;
mod retry;
mod rows;

pub use bytes::Bytes;
pub use chrono::{DateTime, Utc};
pub use reqwest::header::HeaderMap;
pub use reqwest::{Method, StatusCode};
pub use serde_json::Value;
pub use uuid::Uuid;

pub use self::call::{Answer, Call, Pieces};
pub use self::client::{Builder, Client};
pub use self::error::{Error, Problem, Violation};
pub use self::follow::{JobEvent, JobEvents};
pub use self::list::{Count, ListQuery, Order, Page, Pages, Paging};
pub use self::operation::{EventChoice, ReaderToCreate, Replay, WebhookBatch, WebhookToCreate, WebhookToTry};
pub use self::record::{
    Attempt, Connection, CreatedDelivery, CreatedWebhook, Delivery, DeliveryState, EventPage,
    HAND_OVER_STATES, Health, Hit, Hits, ItemError, Job, JobResult, JobState, Login, LostOrder,
    ORDER_STATUSES, Outcome, Preview, Progress, Queue, ReplayCount, Silence, Webhook, WebhookTried,
};
pub use self::retry::RetryPolicy;
pub use self::rows::Rows;

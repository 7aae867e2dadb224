#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! `client` and `call` make requests and read answers; `retry` decides when a request is repeated; `error` is
//! what can go wrong. On these stand `list` (pages of records), `rows` (bodies that are streamed), `follow`
//! (the progress of a job), and `operation` with its `record`s.

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

pub use self::call::{Answer, Call};
pub use self::client::{Builder, Client};
pub use self::error::{Error, Problem, Violation};
pub use self::follow::{JobEvent, JobEvents};
pub use self::list::{ListQuery, Order, Page, Pages, Paging};
pub use self::operation::WebhookToCreate;
pub use self::record::{
    AccessToken, Attempt, Author, CreatedWebhook, Delivery, DeliveryState, Health, ItemError, Job, JobResult,
    JobState, Outcome, Progress, WaitsFor, Webhook,
};
pub use self::retry::RetryPolicy;
pub use self::rows::Rows;

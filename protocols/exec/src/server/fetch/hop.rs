//! One hop of an HTTP request: the request to send to one URL, and the hop that a redirect leads to.
//!
//! The rules for redirects are those of codex 0.169.0:
//! - 301, 302, 303, 307 and 308 with a valid `Location` lead on. Any other answer is final.
//! - After 301 and 302 a `POST` becomes a `GET`. After 303 every method but `HEAD` becomes a `GET`.
//!   A request whose body is dropped loses the headers that describe it, too. After 307 and 308
//!   method and body stay.
//! - A hop to another host or port does not carry credentials: `Authorization`, `Cookie`, and the
//!   like. Codex sends headers whose value comes from the server's environment to any target; this
//!   server treats them as credentials.
//! - `Referer` names the previous URL; for another host or port only its origin.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, HeaderMap,
    HeaderName, HeaderValue, PROXY_AUTHORIZATION, REFERER, TRANSFER_ENCODING, WWW_AUTHENTICATE,
};
use hyper::{Method, Request, StatusCode};
use reknit_seams::defect;
use reknit_seams::net::Endpoint;
use url::{Position, Url};

use super::super::request_error::RequestError;
use crate::wire::http::{HttpParams, RequestHeader};

/// How many redirects of one request the server follows.
pub(super) const MAX_REDIRECTS: usize = 10;

/// The headers that describe a body.
const OF_BODY: [HeaderName; 4] =
    [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING];

/// The headers with credentials for one host.
const CREDENTIALS: [HeaderName; 5] = [
    AUTHORIZATION,
    COOKIE,
    HeaderName::from_static("cookie2"),
    PROXY_AUTHORIZATION,
    WWW_AUTHENTICATE,
];

/// A request to one URL.
pub(super) struct Hop {
    url: Url,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
}

/// The reason why the server cannot send a request to a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UrlError {
    #[error("https is not supported")]
    Https,
    #[error("the scheme {0} is not supported; only http is")]
    Scheme(String),
}

impl Hop {
    /// Returns the first hop of a request. `variables` is the environment of the server.
    pub(super) fn first(
        params: &HttpParams,
        variables: &BTreeMap<String, String>,
    ) -> Result<Self, RequestError> {
        let invalid = |what: &str, why: String| RequestError::Params(format!("{what}: {why}"));
        let url = Url::parse(&params.url).map_err(|error| invalid("url", error.to_string()))?;
        check(&url).map_err(|error| invalid("url", error.to_string()))?;
        let method = Method::from_bytes(params.method.as_bytes())
            .map_err(|error| invalid("method", error.to_string()))?;
        let mut headers = HeaderMap::new();
        for header in &params.headers {
            let name = HeaderName::from_bytes(header.name.as_bytes())
                .map_err(|error| invalid("header name", error.to_string()))?;
            headers.append(name, value(header, variables)?);
        }
        if let Some(credentials) = credentials(&url) {
            headers.entry(AUTHORIZATION).or_insert(credentials);
        }
        let body = params.body_base64.as_ref().map(|body| body.0.clone()).unwrap_or_default();
        Ok(Self { url, method, headers, body })
    }

    /// Returns the host and port to connect to.
    pub(super) fn endpoint(&self) -> Endpoint {
        let host = self.url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Endpoint::tcp(host, self.url.port_or_known_default().unwrap_or(80)).labelled("http")
    }

    /// Returns the request to send.
    pub(super) fn request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        // Both parts come from a parsed URL, so they are valid.
        let path = self.url[Position::BeforePath..Position::AfterQuery].parse();
        *request.uri_mut() = path.unwrap_or_default();
        request.headers_mut().extend(self.headers.clone());
        request.headers_mut().entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        let host = self.url[Position::BeforeHost..Position::AfterPort].parse();
        request.headers_mut().entry(HOST).or_insert(host.unwrap_or(HeaderValue::from_static("")));
        request
    }

    /// Returns the hop that an answer leads to; `None` if the answer is final.
    ///
    /// # Errors
    /// If the answer leads to a URL that this server cannot use.
    pub(super) fn after(
        &self,
        status: StatusCode,
        answer: &HeaderMap,
    ) -> Result<Option<Self>, UrlError> {
        let leads_on = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
        let location = answer.get("location").filter(|_| leads_on);
        let target = location.and_then(|location| location.to_str().ok());
        let Some(url) = target.and_then(|target| self.url.join(target).ok()) else {
            return Ok(None);
        };
        check(&url)?;
        let mut next = Self {
            method: self.method.clone(),
            headers: self.headers.clone(),
            body: self.body.clone(),
            url,
        };
        if next.loses_body(status) || status.as_u16() >= 307 && defect!(RepeatedRequestLosesBody) {
            next.body = Bytes::new();
            OF_BODY.iter().for_each(|name| drop(next.headers.remove(name)));
        }
        let same = next.url.origin() == self.url.origin();
        if !same && !defect!(CredentialsFollowRedirects) {
            next.drop_credentials();
        }
        if let Some(referer) = self.referer(same) {
            next.headers.insert(REFERER, referer);
        }
        Ok(Some(next))
    }

    /// Changes the method as the status demands. Returns whether the request loses its body.
    fn loses_body(&mut self, status: StatusCode) -> bool {
        let becomes_get = match status.as_u16() {
            // The bug: the redirect changes each method.
            301 | 302 => self.method == Method::POST || defect!(EveryMethodBecomesGet),
            303 => true,
            _ => false,
        };
        if defect!(PostRepeatedAfterRedirect) || !becomes_get {
            return false;
        }
        if self.method != Method::HEAD || defect!(HeadBecomesGet) {
            self.method = Method::GET;
        }
        true
    }

    fn drop_credentials(&mut self) {
        let named = if defect!(ProxyCredentialsFollow) { &CREDENTIALS[..2] } else { &CREDENTIALS };
        named.iter().for_each(|name| drop(self.headers.remove(name)));
        let secret: Vec<HeaderName> = (self.headers.iter())
            .filter(|(_, value)| value.is_sensitive())
            .map(|(name, _)| name.clone())
            .collect();
        secret.iter().for_each(|name| drop(self.headers.remove(name)));
    }

    /// Returns the `Referer` of the next hop, which has the same origin or not.
    fn referer(&self, same: bool) -> Option<HeaderValue> {
        let mut url = self.url.clone();
        url.set_fragment(None);
        if !defect!(RefererKeepsPassword) {
            url.set_username("").and_then(|()| url.set_password(None)).ok()?;
        }
        let known = if same { url.into() } else { format!("{}/", &url[..Position::BeforePath]) };
        known.parse().ok()
    }
}

/// Checks that the server can send a request to this URL.
fn check(url: &Url) -> Result<(), UrlError> {
    match url.scheme() {
        "http" => Ok(()), // such a URL has a host
        "https" => Err(UrlError::Https),
        other => Err(UrlError::Scheme(other.to_owned())),
    }
}

/// Returns the value of a header. A value from the environment is marked as sensitive.
fn value(
    header: &RequestHeader,
    variables: &BTreeMap<String, String>,
) -> Result<HeaderValue, RequestError> {
    let name = &header.name;
    let refused = |why: String| RequestError::Params(format!("header {name}: {why}"));
    let mut text = header.value.clone();
    if let Some(variable) = &header.value_env_var {
        match variables.get(variable).map(String::as_str) {
            None => {
                return Err(refused(format!("the server has no environment variable {variable}")));
            }
            Some("") if !defect!(EmptyVariableSent) => {
                return Err(refused(format!("the environment variable {variable} is empty")));
            }
            Some(value) => text.push_str(value),
        }
    }
    let mut value =
        HeaderValue::from_str(&text).map_err(|_| refused("the value is not valid".into()))?;
    value.set_sensitive(header.value_env_var.is_some());
    Ok(value)
}

/// Returns the `Authorization` header for a URL with a user name or password.
fn credentials(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let decoded =
        |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let pair =
        format!("{}:{}", decoded(url.username()), decoded(url.password().unwrap_or_default()));
    let mut value: HeaderValue = format!("Basic {}", BASE64_STANDARD.encode(pair)).parse().ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(
        method: &str,
        url: &str,
        headers: &[(&str, &str, Option<&str>)],
    ) -> Result<Hop, String> {
        let variables = BTreeMap::from(
            [("TOKEN", "t0k"), ("EMPTY", ""), ("LINES", "a\nb")]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let header = |(name, value, variable): &(&str, &str, Option<&str>)| RequestHeader {
            value_env_var: variable.map(str::to_owned),
            ..RequestHeader::new(*name, *value)
        };
        let params = HttpParams {
            method: method.into(),
            url: url.into(),
            headers: headers.iter().map(header).collect(),
            body_base64: Some(Bytes::from("body").into()),
            timeout_ms: None,
            redirect_policy: Default::default(),
            request_id: "http-1".into(),
            stream_response: false,
        };
        Hop::first(&params, &variables).map_err(|refusal| refusal.to_string())
    }

    /// Renders the request of a hop, without the header `accept`: `POST 4 a:80/b host=a x=y`.
    fn shown(hop: &Hop) -> String {
        let request = hop.request();
        let mut text =
            format!("{} {} {}{}", hop.method, hop.body.len(), hop.endpoint(), request.uri());
        for (name, value) in request.headers().iter().filter(|(name, _)| *name != ACCEPT) {
            text += &format!(" {name}={}", String::from_utf8_lossy(value.as_bytes()));
        }
        text
    }

    fn after(hop: &Hop, status: u16, location: &str) -> Result<Option<Hop>, UrlError> {
        let answer = HeaderMap::from_iter([(
            "location".parse().unwrap(),
            HeaderValue::from_str(location).unwrap(),
        )]);
        hop.after(StatusCode::from_u16(status).unwrap(), &answer)
    }

    #[test]
    fn a_url_determines_endpoint_path_and_host() {
        for (url, wanted) in [
            ("http://a", "GET 4 a:80/ host=a"),
            ("http://a:8080/b/../c?d=e#f", "GET 4 a:8080/c?d=e host=a:8080"),
            ("HTTP://A:80/ü d", "GET 4 a:80/%C3%BC%20d host=a"),
            (
                "http://us%20er:word@[::1]:81/x",
                "GET 4 ::1:81/x authorization=Basic dXMgZXI6d29yZA== host=[::1]:81",
            ),
        ] {
            assert_eq!(first("GET", url, &[]).as_ref().map(shown), Ok(wanted.to_owned()));
        }
        let own =
            first("GET", "http://u:w@a/", &[("Host", "b", None), ("Authorization", "c", None)]);
        assert_eq!(shown(&own.unwrap()), "GET 4 a:80/ host=b authorization=c");
    }

    #[test]
    fn a_header_may_end_with_a_variable_of_the_server() {
        let hop = first(
            "GET",
            "http://a/",
            &[("Authorization", "Bearer ", Some("TOKEN")), ("x", "", Some("TOKEN"))],
        );
        assert_eq!(shown(&hop.unwrap()), "GET 4 a:80/ authorization=Bearer t0k x=t0k host=a");
        for (variable, why) in [
            ("NONE", "invalid parameters: header x: the server has no environment variable NONE"),
            ("EMPTY", "invalid parameters: header x: the environment variable EMPTY is empty"),
            ("LINES", "invalid parameters: header x: the value is not valid"),
        ] {
            let refused = first("GET", "http://a/", &[("x", "v", Some(variable))]);
            assert_eq!(refused.err().as_deref(), Some(why));
        }
    }

    #[test]
    fn invalid_requests_are_refused() {
        for (url, why) in [
            ("", "url: relative URL without a base"),
            ("/a", "url: relative URL without a base"),
            ("https://a/", "url: https is not supported"),
            ("file:///a", "url: the scheme file is not supported; only http is"),
            ("http://", "url: empty host"),
            ("http://a:99999/", "url: invalid port number"),
        ] {
            assert_eq!(first("GET", url, &[]).err(), Some(format!("invalid parameters: {why}")));
        }
        assert!(first("A B", "http://a/", &[]).is_err());
        assert!(first("GET", "http://a/", &[("a b", "c", None)]).is_err());
        assert!(first("GET", "http://a/", &[("a", "b\r\nc: d", None)]).is_err());
    }

    /// Measured with codex 0.169.0: the method and the body of the second request.
    #[test]
    fn the_status_decides_about_method_and_body() {
        for (method, status, wanted) in [
            ("GET", 301, "GET 4"),
            ("POST", 301, "GET 0"),
            ("PUT", 301, "PUT 4"),
            ("HEAD", 301, "HEAD 4"),
            ("POST", 302, "GET 0"),
            ("PATCH", 302, "PATCH 4"),
            ("DELETE", 302, "DELETE 4"),
            ("GET", 303, "GET 0"),
            ("POST", 303, "GET 0"),
            ("PUT", 303, "GET 0"),
            ("HEAD", 303, "HEAD 0"),
            ("FOO", 303, "GET 0"),
            ("POST", 307, "POST 4"),
            ("GET", 307, "GET 4"),
            ("POST", 308, "POST 4"),
            ("DELETE", 308, "DELETE 4"),
        ] {
            let hop = first(method, "http://a/", &[("content-type", "t", None), ("x", "y", None)])
                .unwrap();
            let next = shown(&after(&hop, status, "/b").unwrap().unwrap());
            let kept = if wanted.ends_with('4') { "content-type=t " } else { "" };
            assert_eq!(
                next,
                format!("{wanted} a:80/b {kept}x=y referer=http://a/ host=a"),
                "{method} {status}"
            );
        }
    }

    #[test]
    fn credentials_do_not_leave_their_origin() {
        let secrets = [
            ("authorization", "1", None),
            ("cookie", "2", None),
            ("cookie2", "3", None),
            ("proxy-authorization", "4", None),
            ("www-authenticate", "5", None),
            ("key", "6", Some("TOKEN")),
        ];
        let headers = [&secrets[..], &[("x", "y", None)]].concat();
        let hop = first("GET", "http://a/b?c#d", &headers).unwrap();
        let here = shown(&after(&hop, 302, "http://a:80/e").unwrap().unwrap());
        assert_eq!(
            here,
            "GET 4 a:80/e authorization=1 cookie=2 cookie2=3 proxy-authorization=4 www-authenticate=5 key=6t0k x=y referer=http://a/b?c host=a"
        );
        for elsewhere in ["http://a:81/e", "http://b/e"] {
            let there = after(&hop, 302, elsewhere).unwrap().unwrap();
            assert!(shown(&there).contains("/e x=y referer=http://a/ host="), "{}", shown(&there));
        }
        let named = first("GET", "http://u:w@a/", &[]).unwrap();
        let next = after(&named, 302, "http://v:x@b/").unwrap().unwrap();
        assert_eq!(shown(&next), "GET 4 b:80/ referer=http://a/ host=b");
    }

    #[test]
    fn a_location_is_relative_to_its_url() {
        let hop = first("GET", "http://a/b/c", &[]).unwrap();
        let next = after(&hop, 302, "d?e#f").unwrap().unwrap();
        assert_eq!(shown(&next), "GET 4 a:80/b/d?e referer=http://a/b/c host=a");
    }

    #[test]
    fn an_answer_that_leads_nowhere_is_final() {
        let hop = first("GET", "http://a/", &[]).unwrap();
        for status in [200, 201, 300, 304, 305, 306, 404] {
            assert!(after(&hop, status, "/b").unwrap().is_none(), "{status}");
        }
        assert!(after(&hop, 302, "http://[bad").unwrap().is_none());
        assert!(hop.after(StatusCode::FOUND, &HeaderMap::new()).unwrap().is_none());
        assert_eq!(after(&hop, 302, "https://a/").err(), Some(UrlError::Https));
        assert_eq!(after(&hop, 302, "ftp://a/").err(), Some(UrlError::Scheme("ftp".into())));
    }
}

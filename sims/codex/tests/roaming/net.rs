//! Two network namespaces, a client and a server, with two links between them.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::geteuid;

/// The address of the server, which both links lead to.
pub const SERVER: &str = "10.83.0.1";
/// An address that no machine has: packets to it vanish.
const NOWHERE: &str = "02:00:00:00:00:99";

/// The namespaces. They end when this is dropped.
pub struct Net {
    name: String,
}

impl Net {
    /// Creates the namespaces. The client uses link 1.
    ///
    /// # Errors
    /// The reason, if this machine cannot have them.
    pub fn new() -> Result<Self, String> {
        if !geteuid().is_root() {
            return Err("network namespaces need root".into());
        }
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let net = Self { name: format!("reknit-{}-{number}", std::process::id()) };
        ip(&["netns", "add", &net.server()])?;
        ip(&["netns", "add", &net.client()])?;
        for link in ["1", "2"] {
            let (near, far) = (format!("c{link}"), format!("s{link}"));
            net.at_server(&[
                "link",
                "add",
                &far,
                "type",
                "veth",
                "peer",
                "name",
                &near,
                "netns",
                &net.client(),
            ])?;
            net.at_server(&["addr", "add", &format!("10.83.{link}.1/24"), "dev", &far])?;
            net.at_server(&["link", "set", &far, "up"])?;
            net.at_client(&["addr", "add", &address(link), "dev", &near])?;
            net.at_client(&["link", "set", &near, "up"])?;
        }
        net.at_server(&["addr", "add", &format!("{SERVER}/32"), "dev", "lo"])?;
        net.at_server(&["link", "set", "lo", "up"])?;
        net.at_client(&["link", "set", "lo", "up"])?;
        net.route("1")?;
        Ok(net)
    }

    pub fn server(&self) -> String {
        format!("{}-s", self.name)
    }

    pub fn client(&self) -> String {
        format!("{}-c", self.name)
    }

    /// Moves the client from link 1 to link 2. Its old address is a black hole from now on: packets
    /// from it and to it vanish, and neither side gets an error.
    pub fn moves(&self) -> Result<(), String> {
        let dead = |peer, link| {
            ["neigh", "replace", peer, "lladdr", NOWHERE, "dev", link, "nud", "permanent"]
        };
        self.at_client(&dead("10.83.1.1", "c1"))?;
        self.at_server(&dead("10.83.1.2", "s1"))?;
        self.at_client(&["addr", "del", &address("1"), "dev", "c1"])?;
        self.route("2")
    }

    /// Gives the client its old address back. Connections from it work again.
    pub fn returns(&self) -> Result<(), String> {
        self.at_client(&["addr", "add", &address("1"), "dev", "c1"])?;
        self.at_client(&["neigh", "flush", "dev", "c1", "nud", "permanent"])?;
        self.at_server(&["neigh", "flush", "dev", "s1", "nud", "permanent"])
    }

    /// Aborts the connections of the client to the server, as systems do that end the sockets of a
    /// network that they leave.
    pub fn aborts(&self) -> Result<(), String> {
        run("ip", &["netns", "exec", &self.client(), "ss", "-K", "dst", SERVER])
    }

    fn route(&self, link: &str) -> Result<(), String> {
        let (via, from) = (format!("10.83.{link}.1"), format!("10.83.{link}.2"));
        self.at_client(&["route", "replace", SERVER, "via", &via, "src", &from])
    }

    fn at_server(&self, args: &[&str]) -> Result<(), String> {
        ip(&[&["-n", &self.server()], args].concat())
    }

    fn at_client(&self, args: &[&str]) -> Result<(), String> {
        ip(&[&["-n", &self.client()], args].concat())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", &self.server()]);
        let _ = ip(&["netns", "del", &self.client()]);
    }
}

fn address(link: &str) -> String {
    format!("10.83.{link}.2/24")
}

fn ip(args: &[&str]) -> Result<(), String> {
    run("ip", args)
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let done = Command::new(program).args(args).output();
    let done = done.map_err(|error| format!("{program}: {error}"))?;
    let errors = String::from_utf8_lossy(&done.stderr);
    let words = args.join(" ");
    if done.status.success() {
        Ok(())
    } else {
        Err(format!("{program} {words}: {}", errors.trim()))
    }
}

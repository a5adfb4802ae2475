//! The `--engine` and `--tick` options: `--engine turmoil --tick 5ms`.

use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches, ValueEnum};

use crate::schedule::units::read_duration;
use crate::world::{Engine, Tick};

/// The selected engine, with its tick.
#[derive(Clone, Copy, Debug)]
pub struct EngineOption(pub Engine);

/// The options as the user wrote them.
#[derive(Debug, Args)]
struct Words {
    /// Engine that delivers the segments
    #[arg(long, value_enum, default_value_t)]
    engine: Name,
    /// Step of stock turmoil's clock; a longer tick is faster but coarser [default: 1ms]
    #[arg(long, value_name = "TIME", value_parser = tick)]
    tick: Option<Tick>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Event-driven: virtual time jumps to the next event
    #[default]
    Event,
    /// Stock turmoil, in fixed ticks
    Turmoil,
}

/// Parses a tick.
fn tick(text: &str) -> Result<Tick, String> {
    let length: Duration = read_duration(text).map_err(|error| error.to_string())?;
    Tick::of(length).ok_or_else(|| "a tick must be from `1ms` to `1s` long".into())
}

impl FromArgMatches for EngineOption {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        match Words::from_arg_matches(matches)? {
            Words { engine: Name::Event, tick: None } => Ok(Self(Engine::Event)),
            Words { engine: Name::Event, tick: Some(_) } => Err(Error::raw(
                ErrorKind::ArgumentConflict,
                "the event engine has no ticks; `--tick` needs `--engine turmoil`",
            )),
            Words { engine: Name::Turmoil, tick } => {
                Ok(Self(tick.map_or(Engine::TURMOIL, Engine::Turmoil)))
            }
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for EngineOption {
    fn augment_args(command: Command) -> Command {
        Words::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Words::augment_args_for_update(command)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::args::{Cli, Command};
    use super::*;
    use crate::frontend::words_for;

    #[test]
    fn an_engine_is_written_as_it_is_parsed() {
        let ticks = [1, 5, 1_000]
            .map(|millis| Engine::Turmoil(Tick::of(Duration::from_millis(millis)).unwrap()));
        for engine in [Engine::Event].into_iter().chain(ticks) {
            let line = format!("reknit run{}", words_for(engine));
            let Command::Run(args) = Cli::parse_from(line.split(' ')).command else {
                panic!("{line}")
            };
            assert_eq!(args.engine_option.0, engine, "{line}");
        }
        assert_eq!(
            [Engine::TURMOIL, ticks[1]].map(words_for),
            [" --engine turmoil", " --engine turmoil --tick 5ms"]
        );
    }
}

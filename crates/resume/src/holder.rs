//! The one holder of a stream, fenced by generation.
//!
//! An [`Attachment`](super::Attachment) never replaces its connection. Here a newer connection can
//! take the stream over, because the old one may be dead without being known to be. Each holder has a
//! generation, one more than that of the holder before. Everything that a holder does later carries
//! its generation, and has no effect if there is a newer one. So a late end of an old connection
//! cannot end the new one.
//!
//! It does not decide when a holder may be replaced: the caller knows what the old one has shown of
//! its life.

/// The holder of a stream, if there is one, with the state `T` that the stream keeps for it.
#[derive(Debug)]
pub struct Holder<T> {
    /// The generation of the newest holder; 0 before the first.
    generation: u64,
    held: Option<T>,
}

/// The result of a successful [`Holder::attach`].
#[derive(Debug, PartialEq, Eq)]
pub struct Held<T> {
    /// The generation of the new holder, from 1.
    pub generation: u64,
    /// The state of the holder that was replaced.
    pub replaced: Option<T>,
}

impl<T> Default for Holder<T> {
    fn default() -> Self {
        Self { generation: 0, held: None }
    }
}

impl<T> Holder<T> {
    /// Attaches a new holder. If there is one already, `may_replace` decides.
    ///
    /// # Errors
    /// The error of `may_replace`; nothing has changed then.
    pub fn attach<E>(
        &mut self,
        state: T,
        may_replace: impl FnOnce(&T) -> Result<(), E>,
    ) -> Result<Held<T>, E> {
        if let Some(held) = &self.held {
            may_replace(held)?;
        }
        self.generation += 1;
        Ok(Held { generation: self.generation, replaced: self.held.replace(state) })
    }

    /// Whether this generation holds the stream.
    pub fn is_held_by(&self, generation: u64) -> bool {
        self.held.is_some() && self.generation == generation
    }

    /// Handles the end of a holder. Returns its state; `None`, without any effect, if it does not hold
    /// the stream any more.
    pub fn release(&mut self, generation: u64) -> Option<T> {
        self.is_held_by(generation).then(|| self.held.take()).flatten()
    }

    /// Returns the state of the holder.
    pub fn held(&self) -> Option<&T> {
        self.held.as_ref()
    }

    /// Returns the state of the holder, mutably.
    pub fn held_mut(&mut self) -> Option<&mut T> {
        self.held.as_mut()
    }

    /// Returns the generation of the newest holder; 0 before the first.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attaches a holder that replaces the old one, or is refused.
    fn attach(holder: &mut Holder<char>, state: char, replaces: bool) -> Result<Held<char>, char> {
        holder.attach(state, |held| if replaces { Ok(()) } else { Err(*held) })
    }

    #[test]
    fn a_free_stream_is_attached_without_a_question() {
        let mut holder = Holder::default();
        let held = attach(&mut holder, 'a', false);
        assert_eq!(held, Ok(Held { generation: 1, replaced: None }));
        assert!(holder.is_held_by(1) && holder.held() == Some(&'a'));
    }

    #[test]
    fn a_refused_holder_changes_nothing() {
        let mut holder = Holder::default();
        attach(&mut holder, 'a', false).unwrap();
        assert_eq!(attach(&mut holder, 'b', false), Err('a'));
        assert!(holder.is_held_by(1) && !holder.is_held_by(2));
    }

    #[test]
    fn the_late_end_of_a_replaced_holder_has_no_effect() {
        let mut holder = Holder::default();
        attach(&mut holder, 'a', false).unwrap();
        let held = attach(&mut holder, 'b', true);
        assert_eq!(held, Ok(Held { generation: 2, replaced: Some('a') }));
        assert_eq!((holder.release(1), holder.held()), (None, Some(&'b')));
        assert_eq!((holder.release(2), holder.held()), (Some('b'), None));
        assert_eq!(holder.release(2), None);
    }

    #[test]
    fn a_generation_is_not_used_twice() {
        let mut holder = Holder::default();
        attach(&mut holder, 'a', false).unwrap();
        holder.release(1);
        assert!(!holder.is_held_by(1));
        assert_eq!(attach(&mut holder, 'b', false).map(|held| held.generation), Ok(2));
        assert_eq!(holder.generation(), 2);
    }
}

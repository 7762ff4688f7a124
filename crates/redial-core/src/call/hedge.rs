//! Another attempt beside the ones in flight.

use super::{Call, Class, Context, Permit, Stage, Stop, Time};

/// Why there is no hedge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHedge {
    /// What refuses it; `None` if the attempt has not been overtaken, or too many others were sent just now.
    pub reason: Option<Stop>,
    /// When to ask again, if at all.
    pub again: Option<Time>,
}

impl Call {
    /// When a hedge beside the newest attempt in flight, sent at `sent`, is due; `None` if none is to be sent.
    pub fn hedge_at(&self, cx: &Context<'_>, sent: Time) -> Option<Time> {
        self.may_hedge(cx).ok().and_then(|()| cx.guards.hedge_at(sent, self.deadline))
    }

    /// Grants another attempt beside the ones in flight, of which the newest was sent at `sent`. A refusal does not end
    /// the call.
    ///
    /// # Errors
    ///
    /// Why there is no hedge, and when to ask again.
    pub fn hedge(&mut self, cx: &Context<'_>, sent: Time, now: Time) -> Result<Permit, NoHedge> {
        let never = |stop| NoHedge { reason: Some(stop), again: None };
        self.may_hedge(cx).map_err(never)?;
        let again = cx.policy.hedge().and_then(|rule| rule.again(sent, now));
        if again.is_some() && !(cx.guards.has_overtaken(sent) && cx.guards.paces_hedge(now)) {
            return Err(NoHedge { reason: None, again });
        }
        self.send_beside(cx, now).map_err(|stop| match stop {
            Stop::Budget => NoHedge { reason: Some(stop), again },
            _ => never(stop),
        })
    }

    fn may_hedge(&self, cx: &Context<'_>) -> Result<(), Stop> {
        if self.stage != Stage::Sent {
            Err(Stop::Cancelled)
        } else if !cx.policy.allows_hedge(cx.request.safety) {
            Err(Stop::Unsafe)
        } else if self.in_flight == u8::MAX {
            Err(Stop::Concurrency)
        } else {
            self.attempts_left(cx, true)
        }
    }

    fn send_beside(&mut self, cx: &Context<'_>, now: Time) -> Result<Permit, Stop> {
        self.pay(cx, Class::Transient, now)?;
        let sent = self.send(cx, now);
        self.refund(cx, now);
        sent
    }
}

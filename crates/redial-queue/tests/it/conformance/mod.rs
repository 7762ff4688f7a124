//! The behaviour of every store. Time is real, so jobs are due now or in hours, leases run out at once or in hours, and no test
//! waits for either.

mod claims;
mod dead;
mod enqueue;
mod filters;
mod keys;
mod leases;
mod model;
mod queues;
mod settle;
mod shop;
mod together;

pub(crate) use shop::{HOUR, Shop, fresh, job};

macro_rules! each {
    ($open:path: $($topic:ident { $($name:ident)+ })+) => {
        $($(
            #[tokio::test]
            async fn $name() {
                super::$topic::$name(&$open().await).await;
            }
        )+)+
    };
}

/// All tests, on the stores that a function opens.
macro_rules! conformance {
    ($open:path) => {
        each! {
            $open:
            enqueue {
                a_job_is_returned_as_it_was_enqueued
                ids_rise_and_a_batch_keeps_its_order
                all_or_none
                ten_thousand_at_once
                times_at_both_ends_of_the_calendar
                odd_texts_and_bytes
                invalid_jobs_are_refused
            }
            claims {
                only_due_jobs_are_claimed
                older_jobs_first
                higher_priorities_first
                priority_rises_while_a_job_waits
                a_claim_returns_at_most_the_requested_number
                next_is_the_earliest_of_due_times_and_leases
                queues_do_not_see_each_other
                an_attempt_is_charged_when_it_is_claimed
                age_counts_from_the_first_claim
            }
            leases {
                a_lease_that_ran_out_is_claimed_again
                a_lost_job_keeps_its_place_in_the_order
                fences_rise
                a_stale_settlement_changes_nothing
                a_settlement_counts_once
                a_late_settlement_counts_if_the_job_was_not_claimed_again
                a_heartbeat_keeps_a_lease
                a_stale_heartbeat_is_reported
                a_job_that_is_gone_is_stale
            }
            settle {
                done_is_gone_and_counted
                a_retry_waits_and_remembers
                a_postponed_attempt_is_not_counted
                a_poll_is_one_until_it_was_tried
                dead_keeps_the_reason_and_the_last_outcome
                history_is_bounded
                outcomes_are_a_short_line
                reasons_are_a_short_line
                a_batch_is_settled_in_order
            }
            keys {
                one_of_a_key_at_a_time_in_order
                two_of_a_key_at_a_time
                any_number_of_a_key_at_a_time
                a_retry_holds_the_others
                a_dead_letter_does_not_hold_the_others
                a_removed_job_releases_the_next
                a_released_job_keeps_its_own_time
                jobs_of_other_queues_or_without_a_key_do_not_count
                keep
                refuse
                replace
                replace_after_a_failure_keeps_the_wait
                running_does_not_count_as_waiting
                replaces_the_newest
                jobs_of_a_batch_see_each_other
                a_redriven_job_waits_for_its_key
                a_raised_limit_applies_to_later_jobs
            }
            dead {
                redrive_starts_over_and_keeps_the_history
                redriven_jobs_start_apart
                redrive_touches_only_dead_letters
                dead_letters_beyond_the_limit_are_dropped
                a_lower_limit_on_dead_letters_applies_at_once
                edit_then_redrive
                a_running_job_cannot_be_edited
                a_running_job_cannot_be_removed
                purge
                a_redrive_in_pages_keeps_its_pace
                a_removal_in_pages_stops_at_its_limit
            }
            filters {
                each_field_narrows
                pages
                most_bounds_removal_and_redrive
                older_counts_from_due_or_death
                jobs_are_grouped_by_reason_and_last_outcome
            }
            queues {
                a_paused_queue_claims_nothing
                settings_are_kept
                a_rate_bounds_claims
                a_claim_is_limited_only_if_the_rate_holds_back_due_jobs
                a_rate_of_zero_claims_nothing
                an_unknown_queue_is_empty
                queues_are_listed
                counts_of_each_state
                oldest_is_the_age_of_the_oldest_due_job
                changed_ends_for_a_new_job
                changed_ends_for_a_change_since_the_claim
                changed_ends_for_a_release_a_redrive_and_a_resume
            }
            together {
                each_job_is_done_once
                one_of_a_key_at_a_time_among_many_workers
                enqueues_of_one_key_race
            }
            model {
                behaves_like_the_model
            }
        }
    };
}

pub(crate) mod postgres;
pub(crate) mod sqlite;

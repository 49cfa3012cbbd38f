// SPDX-License-Identifier: Apache-2.0
#include "leasehold/child_worker.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

namespace leasehold::app {

namespace {

using namespace std::chrono_literals;

// A LEASE answers within its store timeout; this only bounds one that died.
constexpr auto answer_limit = 2min;

bool contains(const std::vector<int>& codes, int code) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

std::string replace_work(std::string text, const std::string& work_id) {
  constexpr std::string_view mark = "{work}";
  for (auto at = text.find(mark); at != std::string::npos;
       at = text.find(mark, at + work_id.size()))
    text.replace(at, mark.size(), work_id);
  return text;
}

process::output_mode to_process(config::output_mode mode) {
  switch (mode) {
    case config::output_mode::inherit:
      return process::output_mode::inherit;
    case config::output_mode::file:
      return process::output_mode::file;
    case config::output_mode::discard:
      return process::output_mode::discard;
    default:
      return process::output_mode::prefix;
  }
}

process::child_spec spec_of(const config::pool& settings,
                            const assignment& job) {
  auto& run = settings.run;
  auto& work_id = job.tok.work_id();
  process::child_spec spec;
  for (auto& word : run.argv)
    spec.argv.push_back(replace_work(word, work_id));
  spec.directory = run.directory;
  for (auto& [name, value] : run.environment)
    spec.environment.emplace_back(name, replace_work(value, work_id));
  auto set = [&spec](const char* name, std::string value) {
    spec.environment.emplace_back(name, std::move(value));
  };
  // Ours come last: in nested runs the inner lease wins.
  set("LEASEHOLD_WORK_ID", work_id);
  set("LEASEHOLD_HOLDER_ID", job.tok.holder_id());
  set("LEASEHOLD_TOKEN", std::to_string(job.tok.number()));
  set("LEASEHOLD_PRIOR_EXIT", to_string(job.found.exit));
  set("LEASEHOLD_PRIOR_HOLDER", job.found.holder_id);
  // May hold a password, and is no business of the work.
  spec.removed_environment = {"LEASEHOLD_STORE"};
  spec.output = to_process(run.output);
  spec.output_file = config::output_file_of(run, work_id);
  spec.label = settings.name + "/" + work_id;
  spec.state = job.found.state;
  spec.window = job.window;
  spec.stop_signal = settings.stop.signal;
  spec.grace = settings.stop.grace;
  // While renewals fail the work may go on nearly to the end of its window;
  // then it gets a short time to end by itself, and is killed before the
  // window closes in any case.
  spec.stop_before = std::min(settings.stop.grace, settings.ttl / 10);
  spec.kill_before = std::clamp<duration>(settings.ttl / 40, 50ms, 500ms);
  return spec;
}

class child_worker : public caf::event_based_actor {
public:
  child_worker(caf::actor_config& cfg, assignment job,
               const config::pool& settings, process::supervisor& children)
    : caf::event_based_actor(cfg), job_(std::move(job)), settings_(settings),
      children_(children), watches_(this) {
    // nop
  }

  const char* name() const override {
    return "leasehold.child_worker";
  }

protected:
  caf::behavior make_behavior() override {
    watches_.add(this, job_.hold, [this](const caf::error&) {
      lease_ended_ = true;
      // The window is marked already; the supervisor acts on that.
      if (ended_)
        report();
      else
        children_.check_now();
    });
    start();
    return exit_aware(
      this,
      [this](caf::exit_msg& msg) {
        asked_ = true;
        if (ended_)
          report();
        else if (msg.reason == caf::exit_reason::user_shutdown)
          children_.stop(child_);
        else
          children_.kill(child_);
      },
      [this](child_ended& x) {
        ended_ = true;
        result_ = result_of(x.how, settings_.run);
        // Ended by nobody but the end of its window: then the lease is as good
        // as lost, and the run ends when that is said.
        if (!asked_ && !lease_ended_ && result_.code == ec::cancelled)
          post(this, internal::wake{})
            .delay(std::chrono::ceil<duration>(job_.window->until_end()))
            .send(caf::actor{this});
        else
          report();
      },
      // The loss is told by the HOLD; here only a renewal that came at the very
      // last moment is of interest.
      [this](const internal::wake&) {
        if (job_.window->held())
          report();
      },
      [this](child_asks& x) { answer(std::move(x)); });
  }

  void on_exit() override {
    if (!ended_)
      children_.kill(child_);
    job_ = assignment{};
  }

private:
  void start() {
    auto me = caf::actor{this};
    process::child_events events;
    events.on_exit = [me](const process::child_exit& how) {
      post_anon(me, child_ended{how});
    };
    events.on_request = [me](process::child_request request,
                             process::child_events::answer_function reply) {
      post_anon(me, child_asks{std::move(request), std::move(reply)});
    };
    child_ = children_.start(spec_of(settings_, job_), std::move(events));
  }

  void report() {
    finish(this, job_, std::move(result_));
  }

  void answer(child_asks asked) {
    auto refuse = [reply = asked.answer](const caf::error& err) {
      process::child_reply refusal;
      refusal.code = code_of(err);
      refusal.also = also_of(err);
      refusal.detail = render(err);
      reply(refusal);
    };
    if (asked.request.op == process::checkpoint_op::put) {
      post(this, checkpoint_request{job_.tok, std::move(asked.request.state)})
        .request(job_.lease, answer_limit)
        .then(
          [this, reply = asked.answer](const confirmation&) {
            process::child_reply stored;
            stored.stop_requested = job_.control->stop_requested();
            reply(stored);
          },
          refuse);
    } else {
      post(this, read_request{job_.tok})
        .request(job_.lease, answer_limit)
        .then(
          [this, reply = asked.answer](prior& found) {
            process::child_reply got;
            got.state = std::move(found.state);
            got.stop_requested = job_.control->stop_requested();
            reply(got);
          },
          refuse);
    }
  }

  assignment job_;
  const config::pool& settings_;
  process::supervisor& children_;
  watches watches_;
  process::child_id child_{};
  work_result result_;
  bool asked_ = false;
  bool lease_ended_ = false;
  bool ended_ = false;
};

/// Ends a run at once, with the exit that it found.
caf::behavior retire_again(caf::event_based_actor* self,
                           const assignment& job) {
  finish(self, job, retired());
  return {[](internal::wake) {}};
}

} // namespace

work_result result_of(const process::child_exit& how,
                      const config::command& rules) {
  using kind = process::child_exit::kind;
  if (how.how == kind::exited && how.code == 0)
    return succeeded();
  if (how.how == kind::exited && contains(rules.retired_codes, how.code))
    return retired();
  auto text = how.detail;
  if (how.how == kind::exited)
    text = "the command exited with " + std::to_string(how.code);
  else if (how.how == kind::signalled)
    text = std::string{"the command was ended by signal "}
           + std::to_string(how.code) + " (" + strsignal(how.code) + ")";
  if (how.stop_requested)
    return {ec::cancelled, text + " after it was asked to stop", {}};
  if (how.killed)
    return {ec::cancelled, text + " by leasehold", {}};
  if (how.how == kind::exited && contains(rules.permanent_codes, how.code))
    return failed_for_good(std::move(text));
  return failed(std::move(text));
}

worker_factory run_child(const config::pool& settings,
                         process::supervisor& children) {
  return [&settings, &children](caf::actor_system& sys, assignment job) {
    // Done for good means for everybody: another process, or we before a
    // restart, have retired this unit.
    if (job.found.exit == exit_mode::retired)
      return caf::actor{sys.spawn(retire_again, std::move(job))};
    return caf::actor{sys.spawn<child_worker>(
      std::move(job), std::ref(settings), std::ref(children))};
  };
}

} // namespace leasehold::app

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace leasehold::process {

/// Blocks all signals while it lives. A thread that is created meanwhile
/// starts that way, so signals for the process go to whom main() chose.
class blocked_signals {
public:
  blocked_signals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &saved_);
  }

  blocked_signals(const blocked_signals&) = delete;
  blocked_signals& operator=(const blocked_signals&) = delete;

  ~blocked_signals() {
    ::pthread_sigmask(SIG_SETMASK, &saved_, nullptr);
  }

private:
  sigset_t saved_;
};

} // namespace leasehold::process

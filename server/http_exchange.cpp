#include "server/http_exchange.h"

#include <utility>

namespace lynx::server {

HttpExchange::HttpExchange(std::size_t buffer_limit, std::function<void()> wake)
    : wake_(std::move(wake)), buffer_limit_(buffer_limit) {}

void HttpExchange::wake_unlocked(std::unique_lock<std::mutex>& lock) {
  const bool wake = !std::exchange(wake_pending_, true);
  lock.unlock();
  if (wake) wake_();
}

bool HttpExchange::send(HttpResponse response) {
  std::unique_lock lock(mutex_);
  if (state_ == State::kStreaming) return false;
  if (state_ != State::kOpen) return true;
  pending_.whole = std::move(response);
  pending_.complete = true;
  state_ = State::kComplete;
  abort_callback_ = nullptr;
  wake_unlocked(lock);
  return true;
}

void HttpExchange::begin_stream_locked(HttpResponse head) {
  if (state_ != State::kOpen) return;
  pending_.stream_head = std::move(head);
  state_ = State::kStreaming;
}

void HttpExchange::begin_stream(HttpResponse head) {
  std::unique_lock lock(mutex_);
  begin_stream_locked(std::move(head));
  wake_unlocked(lock);
}

bool HttpExchange::write(std::string piece) {
  std::unique_lock lock(mutex_);
  if (state_ != State::kStreaming || pending_.overflowed) return false;
  // One piece larger than the whole buffer may pass while the buffer is empty: it exists already.
  const bool overflow = buffered_bytes_ > 0 && buffered_bytes_ + piece.size() > buffer_limit_;
  if (overflow) {
    pending_.overflowed = true;
    pending_.pieces.clear();
  } else {
    push(std::move(piece));
  }
  wake_unlocked(lock);
  return !overflow;
}

bool HttpExchange::write_bulk(std::string piece) {
  std::unique_lock lock(mutex_);
  if (state_ != State::kStreaming || pending_.overflowed) return false;
  // Room for the piece, and for what is written while it is being taken.
  buffer_limit_ += 2 * piece.size();
  push(std::move(piece));
  wake_unlocked(lock);
  return true;
}

void HttpExchange::push(std::string piece) {
  buffered_bytes_ += piece.size();
  pending_.pieces.push_back(std::move(piece));
}

void HttpExchange::end_stream() {
  std::unique_lock lock(mutex_);
  if (state_ != State::kStreaming) return;
  pending_.complete = true;
  state_ = State::kComplete;
  abort_callback_ = nullptr;
  wake_unlocked(lock);
}

void HttpExchange::set_heartbeat(HttpResponse head, std::string comment) {
  const std::lock_guard lock(mutex_);
  heartbeat_head_ = std::move(head);
  heartbeat_comment_ = std::move(comment);
}

void HttpExchange::on_abort(std::function<void()> callback) {
  std::unique_lock lock(mutex_);
  if (state_ == State::kComplete) return;
  if (state_ != State::kAborted) {
    abort_callback_ = std::move(callback);
    return;
  }
  lock.unlock();
  callback();
}

bool HttpExchange::aborted() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kAborted || pending_.overflowed;
}

HttpExchange::Output HttpExchange::take() {
  const std::lock_guard lock(mutex_);
  wake_pending_ = false;
  Output output = std::exchange(pending_, Output{});
  pending_.overflowed = output.overflowed;
  return output;
}

void HttpExchange::written(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  buffered_bytes_ -= bytes;
}

void HttpExchange::heartbeat() {
  const std::lock_guard lock(mutex_);
  if (!heartbeat_head_ || state_ == State::kComplete || state_ == State::kAborted) return;
  begin_stream_locked(*heartbeat_head_);
  push(heartbeat_comment_);
}

void HttpExchange::abort() {
  std::unique_lock lock(mutex_);
  if (state_ == State::kComplete || state_ == State::kAborted) return;
  state_ = State::kAborted;
  const std::function<void()> callback = std::exchange(abort_callback_, nullptr);
  lock.unlock();
  if (callback) callback();
}

bool HttpExchange::complete() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kComplete;
}

}  // namespace lynx::server

#include "server/pair_metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <utility>

namespace lynx::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricType;

/// A page that is put together from values at once.
class Page {
 public:
  using Labels = std::vector<ClientMetric::Label>;

  void counter(const char* name, const char* help, std::uint64_t value) {
    ClientMetric metric;
    metric.counter.value = static_cast<double>(value);
    family(name, help, MetricType::Counter).push_back(std::move(metric));
  }
  void gauge(const char* name, const char* help, double value, Labels labels = {}) {
    ClientMetric metric;
    metric.gauge.value = value;
    metric.label = std::move(labels);
    family(name, help, MetricType::Gauge).push_back(std::move(metric));
  }
  std::string text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  std::vector<ClientMetric>& family(const char* name, const char* help, MetricType type) {
    for (prometheus::MetricFamily& known : families_) {
      if (known.name == name) return known.metric;
    }
    families_.push_back({name, help, type, {}});
    return families_.back().metric;
  }

  std::vector<prometheus::MetricFamily> families_;
};

void add_numerics(const std::string& numerics, Page* page) {
  page->gauge("lynx_model_numerics_info", "Fingerprint of this node's arithmetic; always 1", 1, {{"fingerprint", numerics}});
}

}  // namespace

std::string decode_pair_metrics(const RemotePromptsStats& stats, const std::vector<PrefillNodeStatus>& nodes,
                                const std::string& numerics, const std::string& mode) {
  Page page;
  add_numerics(numerics, &page);
  page.gauge("lynx_transport_mode_info", "How KV caches travel unless a request says otherwise; always 1", 1, {{"mode", mode}});
  for (const PrefillNodeStatus& node : nodes) {
    const Page::Labels labels{{"node", node.address}};
    page.gauge("lynx_pair_prefill_up", "1: a transfer from this prefill node was proven", node.up ? 1 : 0, labels);
    page.gauge("lynx_pair_outstanding_prompt_tokens", "Prompt tokens at this prefill node without a first token yet",
               static_cast<double>(node.outstanding_prompt_tokens), labels);
    page.gauge("lynx_pair_probe_bytes_per_second", "Rate of the probe when it came up", node.probe_bytes_per_s, labels);
    if (node.transport.empty()) continue;
    page.gauge("lynx_transport_info", "Transport that the data plane uses; always 1", 1,
               {{"node", node.address}, {"transport", node.transport}, {"device", node.device}});
  }
  page.counter("lynx_pair_tickets_total", "Prompts asked of prefill nodes", stats.tickets);
  page.counter("lynx_pair_tickets_again_total", "Of these, asked again after a node had died or refused", stats.tickets_again);
  page.counter("lynx_pair_tickets_failed_total", "Requests for which no prefill node gave a cache", stats.tickets_failed);
  page.counter("lynx_pair_caches_arrived_total", "KV caches that arrived whole", stats.caches_arrived);
  const KvReceiverStats& transfer = stats.transfer;
  page.counter("lynx_transport_received_bytes_total", "Bytes of KV caches placed, Residuals apart", transfer.bytes_placed);
  page.counter("lynx_transport_received_residual_bytes_total", "Bytes of Residuals placed", transfer.residual_bytes_placed);
  page.counter("lynx_transport_chunks_damaged_total", "Chunks whose checksum did not match", transfer.chunks_damaged);
  page.counter("lynx_transport_chunks_duplicate_total", "Chunks that came again", transfer.chunks_duplicate);
  page.counter("lynx_transport_chunks_stale_total", "Chunks of an earlier epoch or a retired ticket", transfer.chunks_stale);
  page.counter("lynx_transport_chunks_foreign_total", "Chunks that are malformed, or of no live ticket", transfer.chunks_foreign);
  page.counter("lynx_transport_chunks_unplaced_total",
               "Chunks sent again: no landing memory was free, or a Residual came before its Anchor", transfer.chunks_unplaced);
  page.counter("lynx_transport_asked_again_total", "Units that were asked for after a silence; most were not computed yet",
               transfer.asked_again);
  page.gauge("lynx_transport_live_tickets", "Transfers under way", transfer.live_tickets);
  return page.text();
}

std::string prefill_pair_metrics(const PromptServerStats& stats, const std::string& numerics) {
  Page page;
  add_numerics(numerics, &page);
  page.gauge("lynx_pair_sessions", "Decode nodes connected", stats.sessions);
  page.gauge("lynx_pair_tickets", "Tickets that are computed, sent, or kept until released", stats.tickets);
  page.counter("lynx_pair_tickets_total", "Tickets taken", stats.tickets_total);
  page.counter("lynx_pair_tickets_failed_total", "Tickets answered with an error", stats.tickets_failed);
  page.counter("lynx_pair_caches_delivered_total", "KV caches that arrived whole", stats.caches_delivered);
  const KvSenderStats& transfer = stats.transfer;
  page.counter("lynx_transport_sent_bytes_total", "Payload bytes sent, resent ones included", transfer.bytes_sent);
  page.counter("lynx_transport_acknowledged_bytes_total", "Payload bytes acknowledged", transfer.bytes_acknowledged);
  page.counter("lynx_transport_chunks_resent_total", "Chunks sent again", transfer.chunks_resent);
  page.counter("lynx_transport_epochs_restarted_total", "Transfers begun anew by the watchdog", transfer.epochs_restarted);
  page.counter("lynx_transport_foreign_messages_total", "Messages that are malformed, or of no live ticket",
               transfer.foreign_messages);
  page.gauge("lynx_transport_live_tickets", "Transfers under way", transfer.live_tickets);
  return page.text();
}

}  // namespace lynx::server

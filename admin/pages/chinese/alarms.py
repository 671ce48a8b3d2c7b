"""What alarms say, and what to do next."""

TEXTS = {
    "no receiver is alive: new messages are refused; producers keep theirs in their spools": (
        "没有存活的接收器：新消息被拒绝；生产者将其消息保存在自己的队列文件中"
    ),
    "no dispatcher is alive: nothing is delivered; what was accepted waits": "没有存活的分发器：无法投递；已接收的消息在等待",
    "no compensator is alive: retries, resends and messages for later wait": (
        "没有存活的补偿器：重试、重发和定时消息在等待"
    ),
    "start one: {command}": "请启动一个：{command}",
    "{part} is not well on {node}: {trouble}": "{node} 上的 {part} 不正常：{trouble}",
    "see docs/operations.md; bus doctor tells of each part": "参见 docs/operations.md；bus doctor 会说明每个部分",
    "spool {name} of {node} is {used} full; nothing stored is lost": "{node} 的队列文件 {name} 已用 {used}；已存储的不会丢失",
    "spool {name} of {node} is full: new records are refused; nothing stored is lost": (
        "{node} 的队列文件 {name} 已满：新记录被拒绝；已存储的不会丢失"
    ),
    "find what its consumers wait for (store, broker, subscriber), or raise spool_limit": (
        "查明其消费方在等待什么（存储、消息代理、订阅者），或提高 spool_limit"
    ),
    "{count} damaged records of spool {name} of {node} were set aside": (
        "{node} 的队列文件 {name} 中有 {count} 条损坏的记录已被隔离"
    ),
    "see docs/operations.md, Damaged files": "参见 docs/operations.md 的 Damaged files 一节",
    "{count} records on the brokers are not messages of the bus; {node} has set them aside": (
        "消息代理上有 {count} 条记录不是总线的消息；{node} 已将其隔离"
    ),
    "find who else writes there; look at them with bus spool show": "查明还有谁向那里写入；用 bus spool show 查看这些记录",
    "the subscriber {name} of {destination} does not answer; its breaker is open on {nodes}": (
        "{destination} 的订阅者 {name} 无应答；其熔断器已在 {nodes} 上打开"
    ),
    "the subscriber {name} of {destination} refuses with {status}; its breaker is open on {nodes}": (
        "{destination} 的订阅者 {name} 以 {status} 拒绝；其熔断器已在 {nodes} 上打开"
    ),
    "the subscriber {name} of {destination} fails with {status}; its breaker is open on {nodes}": (
        "{destination} 的订阅者 {name} 以 {status} 失败；其熔断器已在 {nodes} 上打开"
    ),
    "see whether it runs, and send it a sample once it is back; what it missed is delivered then": (
        "查看其是否在运行，恢复后向其发送样例；届时会投递其错过的消息"
    ),
    "it refuses messages as they are, whenever they come: repair it, or edit and resend them": (
        "消息无论何时到达都按原样被拒绝：请修复订阅者，或编辑消息后重发"
    ),
    "look at its failures, and send it a sample once it is repaired; what it missed is delivered then": (
        "查看其失败，修复后向其发送样例；届时会投递其错过的消息"
    ),
    "{name} of {destination} is paused: {reason}; its messages wait": (
        "{destination} 的 {name} 已暂停：{reason}；其消息在等待"
    ),
    "give it another URL and resume it, or remove it": "为其更换 URL 并恢复，或将其移除",
    "{count} deliveries to {name} of {destination} died within the last hour: they are not tried again": (
        "最近一小时内，向 {destination} 的 {name} 的 {count} 个投递已放弃：不再重试"
    ),
    "see what they have in common (failures): repair the subscriber and resend, or edit what it refuses": (
        "查看其共同点（失败页）：修复订阅者并重发，或编辑其拒绝的消息"
    ),
    "open the example to see what happened": "打开示例查看发生了什么",
    "there was no answer: see whether it runs and can be reached, then resend": (
        "没有应答：查看它是否在运行、能否访问，然后重发"
    ),
    "it answered and failed: repair it; what is retried comes by itself, resend what is dead": (
        "它应答了但失败：请修复；重试中的会自行投递，已放弃的请重发"
    ),
    "{url} publishes over {transport} to {cluster}, as chosen by hand": "{url} 经 {transport} 向 {cluster} 发布（人工指定）",
    "{url} publishes over {transport} to {cluster}, since {primary} is not well": (
        "{url} 经 {transport} 向 {cluster} 发布，因为 {primary} 不正常"
    ),
    "bus cluster auto goes back to the primary": "用 bus cluster auto 恢复到主集群",
    "repair {primary}; it goes back then": "请修复 {primary}；之后会自动恢复",
    "{count} local queues on {node} belong to processes that are gone": "{node} 上有 {count} 个本地队列属于已消失的进程",
    "the sweeper empties them once they are idle; one that stays says why in its log": (
        "清扫进程会在其空闲后清空；若仍有残留，日志会说明原因"
    ),
    "{count} messages of {source} to {destination} were refused for good with {status}: {reason}": (
        "{source} 发往 {destination} 的 {count} 条消息被永久拒绝（{status}）：{reason}"
    ),
    "their producer keeps them, see bus spool ls where it runs; bus spool drain --rejected sends them again": (
        "其生产者仍保存着这些消息，请在其所在机器上用 bus spool ls 查看；bus spool drain --rejected 可重新发送"
    ),
    "{count} messages to {destination} were refused for now: what waits fills its share of the spool": (
        "发往 {destination} 的 {count} 条消息暂被拒绝：其等待中的消息已占满它在本地队列中的份额"
    ),
    "producers send them again; see what it waits for: a pause, the store, a broker, a subscriber": (
        "生产者会保留并重新发送；请查看它在等待什么（暂停、存储、消息中间件或订阅者）"
    ),
    "{count} messages to {destination} were refused for now: more come than its rate allows": (
        "发往 {destination} 的 {count} 条消息暂被拒绝：超出其速率"
    ),
    "producers send them again; find who sends so many, or raise the rate of the destination": (
        "生产者会重新发送；请查明谁发送得这么多，或提高该目的地的速率"
    ),
    "{count} messages of {key} were refused for now: it sends more than its rate allows": (
        "{key} 的 {count} 条消息暂被拒绝：超出其速率"
    ),
    "producers send them again; find why it sends so many, or raise the rate of the key": (
        "生产者会重新发送；请查明它为何发送得这么多，或提高该密钥的速率"
    ),
}

"""Why a delivery or an item of a resend stands as it does."""

TEXTS = {
    "paused": "已暂停",
    "scheduled": "已定时",
    "the destination is paused": "目的地已暂停",
    "deliver at {time}": "将于 {time} 投递",
    "the subscription is paused": "订阅已暂停",
    "the subscription is paused: {reason}": "订阅已暂停：{reason}",
    "the next attempt is due at {time}": "下一次尝试将于 {time} 到期",
    "no dispatcher is alive, so nobody delivers": "没有存活的分发器，无法投递",
    "no compensator is alive, which hands over what is due": "没有存活的补偿器来移交到期的投递",
    "the breaker on {nodes} is trying a probe: {why}": "{nodes} 上的熔断器正在试探：{why}",
    "the breaker on {nodes} is open until a probe at {time}: {why}": "{nodes} 上的熔断器已打开，将于 {time} 试探：{why}",
    "nobody answered": "无人应答",
    "the subscriber refused with HTTP {status}": "订阅者以 HTTP {status} 拒绝",
    "the subscriber answered HTTP {status}": "订阅者应答 HTTP {status}",
    "no dispatcher has a share of the permits yet": "尚无分发器获得许可份额",
    "no permit is free, {used} of {total} are in use: it waits for one, or has one of them": (
        "没有空闲的许可，{total} 个中已用 {used} 个：它在等待许可，或已占用其中一个"
    ),
    "the rate of the subscription holds it: {rate} a second": "受订阅的速率限制：每秒 {rate} 条",
    "the local queue of the receiver on {node}": "{node} 上接收器的本地队列",
    "its queue in {broker}": "{broker} 中它的队列",
    "the direct queue of the dispatcher on {node}": "{node} 上分发器的直连队列",
    "it may be out: outcomes on {nodes} wait for the store since {time}": (
        "它可能已投出：{nodes} 上的结果自 {time} 起等待写入存储"
    ),
    "it waits in {place}": "它在{place}中等待",
    "it waits in {place}, or is one of {used} requests that are under way": (
        "它在{place}中等待，或是正在进行的 {used} 个请求之一"
    ),
    "it is one of {used} requests that are under way, or is next": "它是正在进行的 {used} 个请求之一，或即将轮到",
    "it is due and about to be handed over": "已到期，即将移交",
    "nothing holds it: it is between two of its steps": "没有阻碍：正处于两个步骤之间",
    "filter": "被过滤条件排除",
    "subscription removed": "订阅已删除",
    "the subscriber answered 410 Gone": "订阅者应答 410 Gone",
    "paused by a person": "由人员暂停",
    "{reason}; not tried again, as the subscription says": "{reason}；按订阅的设置不再重试",
    "{reason}; retries exhausted after {count}": "{reason}；重试 {count} 次后用尽",
    "resent by a person": "由人员重发",
    "resent by {name}": "由 {name} 重发",
    "still pending: it is on its way": "仍待投递：正在途中",
    "it has ended since": "此后已结束",
    "the message is past its retention": "消息已过保留期",
    "resent again since": "此后又被重发",
    "the job was canceled before this was resent": "任务在重发它之前已取消",
    "resent; the job was canceled before the outcome was known, which its trace has": (
        "已重发；任务在得知结果之前已取消，结果见其链路"
    ),
}

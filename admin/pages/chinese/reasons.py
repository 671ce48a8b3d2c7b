"""Why a delivery or an item of a resend stands as it does."""

TEXTS = {
    "paused": "已暂停",
    "scheduled": "已定时",
    "the destination is paused": "目的地已暂停",
    "deliver at {time}": "将于 {time} 投递",
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

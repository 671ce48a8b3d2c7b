"""What the steps of a message say."""

TEXTS = {
    "the message itself has not arrived in the store; what is known comes from dispatchers": (
        "消息本身尚未到达存储；已知内容来自分发器"
    ),
    "made of {message} by editing": "由编辑 {message} 产生",
    "sent by {source}": "由 {source} 发送",
    "sent": "已发送",
    "received, {count} bytes": "已接收，{count} 字节",
    "time to deliver it": "到达投递时间",
    "resent by {name}: {reason}": "由 {name} 重发：{reason}",
    "attempt {n} is not told here": "第 {n} 次尝试未在此列出",
    "attempts {first} to {last} are not told here": "第 {first} 至 {last} 次尝试未在此列出",
    "taken over by a dispatcher": "已由分发器接手",
    "attempt {n}": "第 {n} 次尝试",
    "attempt {n}, a retry that the compensator handed over": "第 {n} 次尝试，由补偿器移交的重试",
    "attempt {n}, stuck until the compensator handed it over": "第 {n} 次尝试，滞留后由补偿器移交",
    "attempt {n}, a resend that the compensator handed over": "第 {n} 次尝试，由补偿器移交的重发",
    "answered HTTP {status}": "应答 HTTP {status}",
    "{state}: {reason}": "{state}：{reason}",
    "no dispatcher has told of it yet": "尚无分发器报告",
    "the next attempt is due": "下一次尝试到期",
}

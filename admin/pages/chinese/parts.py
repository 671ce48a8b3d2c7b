"""What parts of several pages say."""

TEXTS = {
    "Leave it": "不做",
    "This is shown only now. The bus signs with it and never shows it again.": "仅此刻显示。总线用它签名，之后不再显示。",
    "secret": "密钥",
    "Copy": "复制",
    "I have kept it": "我已保存",
    "Type {text} to go on": "输入 {text} 以继续",
    "Messages": "消息",
    "p50": "p50",
    "p99": "p99",
    "accepted": "已接收",
    "From accepted to delivered": "从接收到送达",
    "failed attempts": "失败的尝试",
    "Last hour": "最近一小时",
    "Last day": "最近一天",
    "Last week": "最近一周",
    "Span of time": "时间范围",
    "Not up to date since {time}: {why}": "自 {time} 起未更新：{why}",
}

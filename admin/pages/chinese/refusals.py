"""Why something may not be done, and what to do."""

TEXTS = {
    "there is no destination {code}": "没有目的地 {code}",
    "there is no subscription {name} of {destination}": "{destination} 没有订阅 {name}",
    "make it with: {command}": "可用此命令创建：{command}",
    "there is no resend {id}": "没有重发 {id}",
    "{command} lists them": "{command} 可列出",
    "there is no message {id}": "没有消息 {id}",
    "message {id} is not in the store: the messages of its day were archived at {time}": (
        "消息 {id} 不在存储中：它那一天的消息已于 {time} 归档"
    ),
    "read it there with: {command}": "可在归档中读取：{command}",
    "check the id; it may be past its retention": "请检查编号；它可能已过保留期",
    "it may be past its retention": "它可能已过保留期",
    "a delivery of this message is still pending: it is on its way": "此消息有投递仍待进行：正在途中",
    "{name} may not {action}": "{name} 无权执行 {action}",
    "{name} may not {action} on {destination}": "{name} 无权在 {destination} 上执行 {action}",
    "ask an admin for a key with that role": "请向管理员申请具有该角色的密钥",
    "it is limited to {destinations}: name one, or ask an admin for another key": (
        "仅限 {destinations}：请指定其一，或向管理员申请另一个密钥"
    ),
    "{code} still has subscriptions": "{code} 仍有订阅",
    "remove them first: bus subscription rm": "请先移除订阅：bus subscription rm",
    "{code} has masking rules, and its messages stay readable until their retention; nothing was removed": (
        "{code} 有遮盖规则，其消息在保留期内仍可读取；未移除任何内容"
    ),
    "take the rules away first if that may be seen: bus destination set CODE --no-mask": (
        "若允许他人看到，请先去掉规则：bus destination set CODE --no-mask"
    ),
    "The host {host} is denied by a setting.": "主机 {host} 被设置禁止。",
    "The address {address} is denied by a setting.": "地址 {address} 被设置禁止。",
    "The address {address} is {kind}.": "地址 {address} 属于 {kind}。",
    "Allow it with BUS_EGRESS_ALLOW if that is intended.": "如确有需要，请用 BUS_EGRESS_ALLOW 允许。",
    "transport {transport} is not set up here; there are: {transports}": "此处未配置传输 {transport}；可用的有：{transports}",
    "name its servers in the configuration: docs/configuration.md": "请在配置中指定其服务器：docs/configuration.md",
    "no dispatcher is alive; nothing was sent to the subscriber": "没有存活的分发器；未向订阅者发送任何内容",
}

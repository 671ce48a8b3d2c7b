"""What the page of one's own account says."""

TEXTS = {
    "Make the first user": "创建第一个用户",
    "Nobody is logged in: the bus is open": "无人登录：总线处于开放状态",
    "Whoever reaches this machine's loopback may do everything. The first user or key ends that.": "能访问本机回环地址的人可以做任何操作。创建第一个用户或密钥后即结束。",
    "Your password is changed": "密码已修改",
    "All your other sessions have ended: log in there with the new password.": "您的其他会话均已结束：请用新密码重新登录。",
    "May": "可以",
    "Who I am": "我是谁",
    "At least 12 characters. It ends all your sessions but this one.": "至少 12 个字符。除本会话外，您的所有会话都将结束。",
    "Session ends": "会话结束时间",
    "Or after": "或在",
    "{time} without anything done": "{time} 无操作之后",
    "Present password": "当前密码",
    "New password": "新密码",
    "New password again": "再次输入新密码",
    "Change the password": "修改密码",
    "The two new passwords differ.": "两次输入的新密码不一致。",
}

"""What a front end holds: messages and parts, built from wire events alone."""

from agent_sdk.events.wire import (
    EventBody,
    MessageInfo,
    MessageUpdated,
    Part,
    PartDelta,
    PartUpdated,
    ReasoningPart,
    TextPart,
)


class SessionGraph:
    def __init__(self) -> None:
        self.messages: dict[str, MessageInfo] = {}
        self.parts: dict[str, dict[str, Part]] = {}

    def apply(self, body: EventBody) -> None:
        match body:
            case MessageUpdated():
                self.messages[body.message.id] = body.message
            case PartUpdated():
                self.parts.setdefault(body.message_id, {})[body.part.id] = body.part
            case PartDelta():
                part = self.parts[body.message_id][body.part_id]
                if isinstance(part, TextPart):
                    part = TextPart(id=part.id, text=part.text + body.text)
                elif isinstance(part, ReasoningPart):
                    part = ReasoningPart(id=part.id, text=part.text + body.text)
                self.parts[body.message_id][body.part_id] = part
            case _:
                pass

    def shown(self) -> list[tuple[MessageInfo, list[Part]]]:
        """Finished messages with the parts that belong to them, in order."""
        return [
            (info, [self.parts[info.id][part_id] for part_id in info.part_ids])
            for info in self.messages.values()
            if info.finished
        ]

"""What drafters from texts propose, by going through whole texts again for every draft."""

LONGEST = 3


def looked_up(text):
    """What followed the latest place of the longest end of ``text`` that stood before."""
    for length in range(LONGEST, 0, -1):
        places = [at for at in range(length, len(text)) if text[at - length : at] == text[-length:]]
        if places:
            return text[places[-1]]
    return text[-1]


def counted(texts, end):
    """What most often followed the longest end of ``end`` in ``texts``; of equals the first."""
    for length in range(min(LONGEST, len(end)), 0, -1):
        followed = [
            text[at]
            for text in texts
            for at in range(length, len(text))
            if text[at - length : at] == end[-length:]
        ]
        if followed:
            return max(dict.fromkeys(followed), key=followed.count)
    return end[-1]


class NaiveLane:
    """The texts of one lane: ``learned`` in earlier requests, and the one at hand."""

    def __init__(self):
        self.learned, self.text, self.known = [], [], 0

    def begin(self, tokens):
        self.text += tokens
        self.known = len(self.text)

    def proposed(self, name, drafts):
        end = self.text + drafts
        if name == "prompt-lookup":
            return looked_up(end)
        return counted([*self.learned, self.text[: self.known]], end)

    def end(self):
        self.learned.append(self.text[: self.known])
        self.text = []

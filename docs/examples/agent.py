"""Send a text and read the inbox through a running agent: agent.py HOME TO TEXT"""
import http.client, json, socket, sys

class Agent(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.host)

def call(home, operation, **request):
    agent = Agent(home + "/agent.sock")
    agent.request("POST", "/v1/" + operation, json.dumps(request), {"Host": "agent", "Content-Type": "application/json"})
    answer = agent.getresponse()
    body = json.loads(answer.read())
    if answer.status != 200:
        sys.exit(body["detail"] + " " + body.get("hint", ""))
    return body

home, to, text = sys.argv[1:]
print(call(home, "message.send", to=to, text=text, wait_seconds=10)["state"])
for message in call(home, "message.inbox", all=True)["texts"]:
    print(message["from"], message["text"])

"""Faults to plant in the scripts of this folder: exact replacements of text, and what a diagnosis should name.

Each fault has the ``finding`` that should be among the first three; ``also``, other findings that would name it as well;
``both``, replacements made in the faulty script and in the one that it is compared with, so that a fault in what
happens rarely gets enough to do; and ``work``, how many times as much a step without the fault does.
"""

from dataclasses import dataclass, field
from pathlib import Path

SUITE = Path(__file__).parent


@dataclass(frozen=True)
class Fault:
    finding: str
    changes: list[tuple[str, str]]
    also: tuple[str, ...] = ()
    both: list[tuple[str, str]] = field(default_factory=list)
    work: int = 1


def replaced(text: str, changes: list[tuple[str, str]]) -> str:
    """The text with all changes made; an old text that does not occur exactly once is an error."""
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f'occurs {text.count(old)} times, and not once: {old!r}')
        text = text.replace(old, new)
    return text


def versions(script: str, fault: str) -> tuple[str, str]:
    """The text of a script without and with a fault."""
    planted = FAULTS[script][fault]
    without = replaced((SUITE / f'{script}.py').read_text(), planted.both)
    return without, replaced(without, planted.changes)


FAULTS = {
    'vision': {
        'pixels in Python': Fault('loader', [(
            "        return image, self.labels[i]\n",
            "        image = np.array([[[value / 255 for value in row] for row in channel] for channel in image])\n"
            "        return image * 255, self.labels[i]\n")]),
        'anomaly detection left on': Fault('anomaly', [(
            "    torch.manual_seed(args.seed)\n",
            "    torch.manual_seed(args.seed)\n"
            "    torch.autograd.set_detect_anomaly(True)\n")]),
        'sixteen threads': Fault('threads', [(
            "    torch.manual_seed(args.seed)\n",
            "    torch.set_num_threads(16)\n"
            "    torch.manual_seed(args.seed)\n")]),
        'float64 model and images': Fault('float64', [
            ("    model = Net(args.width)\n", "    model = Net(args.width).double()\n"),
            ("torch.from_numpy(images).float().div_(255)", "torch.from_numpy(images / 255)")]),
        'layout changed in each block': Fault('copies', [(
            "        x = self.conv(x)\n"
            "        return F.relu(self.norm(x), inplace=True)\n",
            "        x = self.conv(x.to(memory_format=torch.channels_last)).contiguous()\n"
            "        x = self.norm(x.to(memory_format=torch.channels_last)).contiguous()\n"
            "        return F.relu(x, inplace=True)\n")]),
        'one picture at a time': Fault('python-loop', [(
            "        loss = F.cross_entropy(model(images), labels)\n",
            "        scores = torch.cat([model(image.unsqueeze(0)) for image in images])\n"
            "        loss = F.cross_entropy(scores, labels)\n")], also=('small-operators', 'small-batch')),
    },
    'gpt': {
        'checkpoint each step': Fault('checkpoints', [(
            "checkpoint_interval = 200\n", "checkpoint_interval = 1\n")]),
        'accuracy token by token': Fault('synchronization', [(
            "        loss.backward()\n",
            "        correct = 0\n"
            "        for guesses, targets in zip(logits.detach(), Y):\n"
            "            for guess, target in zip(guesses, targets):\n"
            "                surprise = -guess.log_softmax(0)[target].item()\n"
            "                if guess.argmax() == target and surprise < 3:\n"
            "                    correct += 1\n"
            "        loss.backward()\n")], also=('python-loop',)),
        'attention head by head': Fault('python-loop', [(
            "        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)\n",
            "        mask = torch.ones(T, T).tril() == 0\n"
            "        rows = []\n"
            "        for b in range(B):\n"
            "            heads = []\n"
            "            for h in range(n_head):\n"
            "                scores = q[b, h] @ k[b, h].t() / math.sqrt(C // n_head)\n"
            "                weights = scores.masked_fill(mask, -math.inf).softmax(-1)\n"
            "                heads.append(weights @ v[b, h])\n"
            "            rows.append(torch.stack(heads))\n"
            "        y = torch.stack(rows)\n")], also=('small-operators',)),
        'profiler around each forward': Fault('profiler', [(
            "        with ctx:\n",
            "        with torch.autograd.profiler.profile(record_shapes=True, with_stack=True):\n")]),
        'batches of one': Fault('small-batch', [("batch_size = 8\n", "batch_size = 1\n")], work=8),
    },
    'recommender': {
        'row by row through a DataLoader': Fault('loader', [(
            "        order = torch.randperm(len(self.user))\n"
            "        for chunk in order.split(size):\n"
            "            yield self.user[chunk], self.item[chunk], self.tags[chunk], self.numbers[chunk], "
            "self.clicked[chunk]\n",
            "        rows = torch.utils.data.TensorDataset(self.user, self.item, self.tags, self.numbers, self.clicked)\n"
            "        yield from torch.utils.data.DataLoader(rows, batch_size=size, shuffle=True)\n")]),
        'numbers in float64': Fault('float64', [
            ("        self.numbers = torch.randn(n, 13, generator=g)\n",
             "        self.numbers = torch.randn(n, 13, generator=g, dtype=torch.float64)\n"),
            ("        self.clicked = (score > 0.5).float()\n",
             "        self.clicked = (score > 0.5).double()\n"),
            ("        self.model = Model(cfg)\n",
             "        self.model = Model(cfg).to(torch.float64)\n")]),
        'hits counted one by one': Fault('synchronization', [(
            "        self.seen += 1\n",
            "        self.hits = sum(((logit > 0) == (truth > 0.5)).item() for logit, truth in zip(logits, clicked))\n"
            "        self.seen += 1\n")], also=('python-loop',)),
        'profiler around it all': Fault('profiler', [(
            "    Trainer(CONFIG).fit()\n",
            "    with torch.profiler.profile(profile_memory=True, record_shapes=True, with_stack=True):\n"
            "        Trainer(CONFIG).fit()\n")]),
        'small batches': Fault('small-batch', [("    'batch': 2048,\n", "    'batch': 64,\n")], work=32),
        'optimizer table by table': Fault('optimizer-loop', [(
            "        self.tables = torch.optim.Adam(sparse, lr=cfg['lr'], fused=True)\n",
            "        self.tables = torch.optim.Adam(sparse, lr=cfg['lr'])\n")], both=[
            ("        self.user = nn.Embedding(cfg['users'], dim, sparse=True)\n",
             "        self.user = nn.Embedding(cfg['users'], dim)\n"),
            ("        self.item = nn.Embedding(cfg['items'], dim, sparse=True)\n",
             "        self.item = nn.Embedding(cfg['items'], dim)\n"),
            ("mode='sum', sparse=True)", "mode='sum')"),
            ("        self.tables = torch.optim.SGD(sparse, lr=cfg['lr'])\n",
             "        self.tables = torch.optim.Adam(sparse, lr=cfg['lr'], fused=True)\n")]),
    },
    'graph': {
        'messages added a few at a time': Fault('python-loop', [(
            "        total = torch.zeros_like(h).index_add(0, dst, messages)\n",
            "        total = torch.zeros_like(h)\n"
            "        for some, to in zip(messages.split(128), dst.split(128)):\n"
            "            total = total.index_add(0, to, some)\n")],
            also=('small-operators',)),
        'default type float64': Fault('float64', [(
            "torch.manual_seed(3)\n",
            "torch.set_default_dtype(torch.float64)\n"
            "torch.manual_seed(3)\n")]),
        'anomaly detection around the step': Fault('anomaly', [(
            "    loss.backward()\n    optimizer.step()\n",
            "    with torch.autograd.detect_anomaly(check_nan=True):\n"
            "        loss.backward()\n"
            "    optimizer.step()\n")]),
        'mean that remembers': Fault('kept-graph', [
            ("    loss.backward()\n", "    loss.backward(retain_graph=True)\n"),
            ("0.1 * mean.detach()\n", "0.1 * mean\n")]),
        'deterministic algorithms': Fault('deterministic', [(
            "torch.manual_seed(3)\n",
            "torch.manual_seed(3)\n"
            "torch.use_deterministic_algorithms(True, warn_only=True)\n")]),
        'tests each epoch, with gradients': Fault('evaluation-gradients', [
            ("        with torch.no_grad():\n", "        if net:\n"),
            ("    if epoch % 50 == 0:\n", "    if epoch % 1 == 0:\n")]),
    },
    'policy': {
        'actions drawn one by one': Fault('synchronization', [(
            "            probability = torch.softmax(logits, 1)[:, 1].numpy()\n"
            "            actions = (np.random.rand(env.count) < probability).astype(np.int64)\n",
            "            probability = torch.softmax(logits, 1)\n"
            "            actions = np.array([torch.multinomial(row, 1).item() for row in probability])\n")],
            also=('python-loop', 'small-operators')),
        'returns in tensors': Fault('python-loop', [(
            "        returns = torch.from_numpy(discounted(rewards, ends, last, gamma))\n",
            "        rewards_t, ends_t, last_t = map(torch.from_numpy, (rewards, ends, last))\n"
            "        returns = torch.zeros(horizon, carts)\n"
            "        for cart in range(carts):\n"
            "            running = last_t[cart]\n"
            "            for t in reversed(range(horizon)):\n"
            "                running = rewards_t[t, cart] + gamma * running * ~ends_t[t, cart]\n"
            "                returns[t, cart] = running\n")], also=('small-operators',)),
        'threads for every cart': Fault('threads', [(
            "    torch.manual_seed(0)\n",
            "    torch.manual_seed(0)\n"
            "    torch.set_num_threads(carts // 8)\n")]),
        'few carts': Fault('small-batch', [("carts=128, horizon=32", "carts=4, horizon=32")],
                           also=('small-operators',), work=32),
        'loss cart by cart': Fault('small-operators', [(
            "        logits, values = model(torch.from_numpy(seen))\n",
            "        parts = [model(torch.from_numpy(seen[:, cart])) for cart in range(carts)]\n"
            "        logits = torch.stack([part[0] for part in parts], 1)\n"
            "        values = torch.stack([part[1] for part in parts], 1)\n")], also=('python-loop',)),
    },
    'gan': {
        'default type float64': Fault('float64', [(
            "torch.manual_seed(0)\n",
            "torch.manual_seed(0)\n"
            "torch.set_default_dtype(torch.double)\n")]),
        'both networks saved each step': Fault('checkpoints', [(
            "    d_losses.append(d_loss.detach())\n",
            "    state = {'G': G.state_dict(), 'D': D.state_dict(), 'g': opt_g.state_dict(), 'd': opt_d.state_dict()}\n"
            "    torch.save(state, os.path.join(out, 'last.pt'))\n"
            "    d_losses.append(d_loss.detach())\n")]),
        'tiny batches': Fault('small-batch', [("batch = 32\n", "batch = 2\n")], work=16),
        'anomaly detection': Fault('anomaly', [(
            "fixed = torch.randn(16, latent)\n",
            "fixed = torch.randn(16, latent)\n"
            "torch.autograd.anomaly_mode.set_detect_anomaly(True)\n")]),
        'pictures scored one by one': Fault('python-loop', [(
            "    d_loss = criterion(D(real), ones) + criterion(D(fake.detach()), zeros)\n",
            "    d_loss = 0\n"
            "    for true, false in zip(real, fake.detach()):\n"
            "        d_loss = d_loss + criterion(D(true[None]), ones[:1]) / batch\n"
            "        d_loss = d_loss + criterion(D(false[None]), zeros[:1]) / batch\n")],
            also=('small-operators',)),
    },
    'hooks': {
        'percentiles of gradients each step': Fault('synchronization', [(
            "        if trainer.global_step % self.every == 0:\n",
            "        import numpy\n"
            "        for name, parameter in trainer.module.named_parameters():\n"
            "            spread = [numpy.percentile(parameter.grad.numpy(), q) for q in range(0, 101, 5)]\n"
            "            self.lines.append({'step': trainer.global_step, name: spread})\n"
            "        if trainer.global_step % self.every == 0:\n")], also=('python-loop',)),
        'norm over the last dimension': Fault('copies', [
            ("        self.norm = nn.GroupNorm(4, channels)\n",
             "        self.norm = nn.LayerNorm(channels)\n"),
            ("        return x + self.narrow(self.act(self.widen(self.norm(x))))\n",
             "        h = self.norm(x.transpose(1, 2).contiguous()).transpose(1, 2).contiguous()\n"
             "        h = self.act(self.widen(h).transpose(1, 2).contiguous()).transpose(1, 2).contiguous()\n"
             "        return x + self.narrow(h)\n")]),
        'activation by hand': Fault('small-operators', [(
            "        self.act = nn.GELU()\n",
            "        self.act = lambda x: 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))\n")]),
        'more threads': Fault('threads', [(
            "    torch.manual_seed(7)\n", "    torch.manual_seed(7)\n    torch.set_num_threads(8)\n")]),
        'sounds filtered in Python': Fault('loader', [
            ("def loader(data, batch):\n    return DataLoader(data, sampler=WholeBatches(len(data), batch), "
             "batch_size=None)\n",
             "def smooth(samples):\n"
             "    sounds = []\n"
             "    for sound, _ in samples:\n"
             "        values, last = [], 0.0\n"
             "        for value in sound[0].tolist():\n"
             "            last = 0.3 * last + 0.7 * value\n"
             "            values.append(last)\n"
             "        sounds.append(torch.tensor(values))\n"
             "    return torch.stack(sounds).unsqueeze(1), torch.stack([word for _, word in samples])\n"
             "\n\n"
             "def loader(data, batch):\n"
             "    return DataLoader(data, batch, shuffle=True, collate_fn=smooth)\n")]),
    },
    'tabular': {
        'rows parsed from text': Fault('loader', [
            ("def run(epochs):\n",
             "class Lines(torch.utils.data.Dataset):\n"
             "    def __init__(self, table, price):\n"
             "        self.lines = [','.join(f'{v:.5f}' for v in row) for row in table[:8 * BATCH].tolist()]\n"
             "        self.price = price\n"
             "\n"
             "    def __len__(self):\n"
             "        return len(self.price)\n"
             "\n"
             "    def __getitem__(self, i):\n"
             "        values = [float(word) for word in self.lines[i % len(self.lines)].split(',')]\n"
             "        return torch.tensor(values), self.price[i % len(self.lines)]\n"
             "\n\n"
             "def run(epochs):\n"),
            ("        order = torch.randperm(ROWS, device=DEVICE)\n"
             "        for first in range(0, ROWS - BATCH + 1, BATCH):\n"
             "            rows = order[first:first + BATCH]\n"
             "            x, y = table[rows], price[rows]\n",
             "        for x, y in torch.utils.data.DataLoader(Lines(table, price), BATCH, shuffle=True):\n")]),
        'anomaly detection': Fault('anomaly', [(
            "    torch.manual_seed(11)\n",
            "    torch.manual_seed(11)\n    torch.autograd.set_detect_anomaly(mode=True)\n")]),
        'small batches': Fault('small-batch', [("60_000, 64, 1024\n", "60_000, 64, 16\n")], work=64),
        'layers cast to and fro': Fault('copies', [(
            "            x = x + torch.nn.functional.silu(layer(norm(x)))\n",
            "            h = layer(norm(x.double().cpu().float())).double().float()\n"
            "            x = x + torch.nn.functional.silu(h.double()).float()\n")], also=('float64',)),
        'errors looked at row by row': Fault('synchronization', [(
            "            number += 1\n",
            "            worst = max(abs(a.item() - b.item()) for a, b in zip(guess, y))\n"
            "            number += 1\n")], also=('python-loop',)),
        'threads': Fault('threads', [(
            "    number = 0\n", "    number = 0\n    torch.set_num_threads(torch.get_num_threads() + 10)\n")]),
    },
    'gluon_digits': {
        'losses fetched one by one': Fault('synchronization', [(
            "        total += loss.mean()\n",
            "        for one in loss:\n"
            "            total += one.asscalar() / batch_size\n")], also=('python-loop',)),
        'pictures normalized one by one': Fault('loader', [
            ("train = mx.io.NDArrayIter(*make(6400, 0), batch_size, shuffle=True)\n",
             "drawn = gluon.data.ArrayDataset(*make(6400, 0))\n"
             "drawn = drawn.transform_first(lambda picture: (nd.array(picture) - 0.5) / (nd.array(picture).norm() + 1))\n"
             "train = gluon.data.DataLoader(drawn, batch_size, shuffle=True)\n"),
            ("    train.reset()\n", ""),
            ("        pictures, digits = batch.data[0], batch.label[0]\n",
             "        pictures, digits = batch\n")]),
        'picture by picture': Fault('python-loop', [(
            "            loss = cross_entropy(net(pictures), digits)\n",
            "            scores = [net(pictures[i:i + 1]) for i in range(batch_size)]\n"
            "            loss = cross_entropy(nd.concat(*scores, dim=0), digits)\n")],
            also=('small-operators', 'small-batch')),
        'parameters saved each step': Fault('checkpoints', [(
            "        nd.waitall()\n",
            "        nd.waitall()\n"
            "        net.save_parameters(os.path.join(folder, 'last.params'))\n"
            "        trainer.save_states(os.path.join(folder, 'last.states'))\n")]),
        'batches of four': Fault('small-batch', [("= 128, 60, 0.05", "= 4, 60, 0.05")], work=32),
        'tests each step': Fault('evaluation-gradients', [(
            "        nd.waitall()\n",
            "        nd.waitall()\n"
            "        with autograd.record():\n"
            "            accuracy(net, test)\n")]),
    },
}

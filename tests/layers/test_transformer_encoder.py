from support import check_layer


def test_it_keeps_the_laws_of_every_layer():
    check_layer("TransformerEncoder")

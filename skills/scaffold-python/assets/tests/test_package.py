import MODULE


def test_the_package_has_a_version():
    assert MODULE.__version__
